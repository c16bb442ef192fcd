import type { Body, ListRouteName, Rest } from "@roamfleet/sdk/browser";
import { type InfiniteData, keepPreviousData, type Query, useInfiniteQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api } from "./client.ts";
import { collector, mergePage, pagesOf, type RowPage } from "./merge-page.ts";
import { pagesQuery } from "./queries.ts";
import { queryClient } from "./query-client.ts";

const PAGE_ROWS = 500;
/** Minimum interval between refetches of the visible pages. */
const REREAD_GAP_MS = 500;
/** Maximum pages per refetch. The visible rows usually belong to at most two pages. */
const REREAD_PAGES_MAX = 3;

type RowOf<N extends ListRouteName> = Body<N> extends { items: readonly (infer Row)[] } ? Row : never;
type Pages = InfiniteData<RowPage<Row>, string | undefined>;
/** Every row of a list has an ID. */
type Row = { id: string };
const idOf = ({ id }: Row): string => id;

/**
 * Loads a list of any length and keeps it up to date: stale pages are refetched only while their rows are visible, others when they
 * become visible. Pass the result to a ListTable.
 */
export function useLivePages<N extends ListRouteName>(name: N, ...rest: Rest<N>) {
  const args = rest[0] as { query?: Record<string, unknown> } | undefined;
  const asked = { ...args, query: { limit: PAGE_ROWS, ...args?.query } };
  const options = pagesQuery(name, ...([asked] as unknown as Rest<N>));
  const query = useInfiniteQuery({
    ...options,
    // Prevents refetches by React Query, which would load all pages: `rereader` below refetches single pages.
    staleTime: "static",
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    placeholderData: keepPreviousData,
  });
  const pages = query.data?.pages as RowPage<RowOf<N> & Row>[] | undefined;
  const [collect] = useState(() => collector<RowOf<N> & Row>(idOf));
  const rows = useMemo(() => collect(pages ?? []), [pages, collect]);
  const onRange = useReread(name, asked, options.queryKey);
  const { fetchNextPage, isFetchingNextPage, hasNextPage, isError } = query;
  const onEnd = useCallback(() => {
    if (!isFetchingNextPage && !isError) void fetchNextPage();
  }, [fetchNextPage, isFetchingNextPage, isError]);
  return { query, rows, has_more: hasNextPage, onEnd, onRange };
}

/** Refetches visible pages when the list is invalidated. Returns the callback that receives the visible range. */
function useReread(name: ListRouteName, args: object, key: readonly unknown[]) {
  const hash = JSON.stringify(key);
  const state = useRef({ range: [0, 0] as readonly [number, number], wake: () => {} });
  // The arguments are new objects on each render; their key identifies them.
  const latest = useRef({ args, key });
  latest.current = { args, key };
  useEffect(() => {
    const reader = rereader(name, latest.current, () => state.current.range);
    state.current.wake = reader.wake;
    return reader.stop;
  }, [name, hash]);
  return useCallback((first: number, last: number) => {
    state.current.range = [first, last];
    state.current.wake();
  }, []);
}

interface List {
  args: object;
  key: readonly unknown[];
}

function rereader(name: ListRouteName, list: List, range: () => readonly [number, number]) {
  const { key } = list;
  const query = () => queryClient.getQueryCache().find<Pages>({ queryKey: key, exact: true });
  // Data that an earlier visit to the page left in the cache is stale.
  let stale_from = query()?.state.data === undefined ? 0 : performance.now();
  /** Time of the last fetch of each page, by cursor. */
  const read_at = new Map<string, number>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let is_reading = false;
  let is_stopped = false;

  const due = (): string[] => {
    const data = query()?.state.data;
    if (data === undefined || stale_from === 0) return [];
    const cursors = pagesOf(data.pages, ...range()).map((index) => data.pageParams[index] ?? "");
    return cursors.filter((cursor) => (read_at.get(cursor) ?? 0) < stale_from).slice(0, REREAD_PAGES_MAX);
  };
  const wake = (): void => {
    if (is_stopped || is_reading || timer !== undefined || due().length === 0) return;
    timer = setTimeout(() => void read(), REREAD_GAP_MS);
  };
  const read = async (): Promise<void> => {
    timer = undefined;
    is_reading = true;
    for (const cursor of due()) {
      const at = performance.now();
      const fresh = await readPage(name, list.args, cursor);
      if (is_stopped) return;
      // Discard this response while the list loads its next page: when that load completes, React Query restores the old version of this
      // page. This page is refetched afterwards.
      if (query()?.state.fetchStatus === "fetching") continue;
      read_at.set(cursor, at);
      // A failed page is retried with the next change.
      if (fresh !== undefined) putPage(list, cursor, fresh);
    }
    is_reading = false;
    wake();
  };
  const unsubscribe = queryClient.getQueryCache().subscribe((event) => {
    if (event.type !== "updated" || event.query !== query()) return;
    if (event.action.type === "success")
      for (const param of query()?.state.data?.pageParams ?? []) if (!read_at.has(param ?? "")) read_at.set(param ?? "", performance.now());
    if (event.action.type !== "invalidate") return;
    stale_from = performance.now();
    if (event.query.state.status === "error") retry(event.query as Query<Pages>);
    // React Query notifies only once until the query is fresh: reset the flag, so that the next invalidation notifies, too.
    queueMicrotask(() => event.query.state.isInvalidated && event.query.setState({ isInvalidated: false }));
    wake();
  });
  const onFocus = (): void => {
    if (document.visibilityState === "visible") void queryClient.invalidateQueries({ queryKey: key, exact: true });
  };
  document.addEventListener("visibilitychange", onFocus);
  wake();
  return {
    wake,
    stop: () => {
      is_stopped = true;
      clearTimeout(timer);
      unsubscribe();
      document.removeEventListener("visibilitychange", onFocus);
    },
  };
}

/** After an outage: refetches a list that failed, and allows its next page to be loaded. */
function retry(failed: Query<Pages>): void {
  if (failed.state.fetchStatus !== "idle") return;
  if (failed.state.data === undefined) void failed.fetch().catch(() => {});
  else failed.setState({ status: "success", error: null });
}

async function readPage(name: ListRouteName, args: object, cursor: string): Promise<RowPage<Row> | undefined> {
  const { query } = args as { query: Record<string, unknown> };
  const page = { ...args, query: { ...query, cursor: cursor === "" ? undefined : cursor } };
  try {
    return (await api.call(name, ...([page] as unknown as Rest<ListRouteName>))).body as RowPage<Row>;
  } catch {
    return undefined;
  }
}

function putPage({ key }: List, cursor: string, fresh: RowPage<Row>): void {
  const data = queryClient.getQueryData<Pages>(key);
  const at = data?.pageParams.findIndex((param) => (param ?? "") === cursor) ?? -1;
  if (data === undefined || at === -1) return;
  const pages = mergePage(data.pages, at, fresh, idOf);
  queryClient.setQueryData<Pages>(key, { pages, pageParams: data.pageParams.slice(0, pages.length) });
}
