import { versionNumbers } from "@roamfleet/protocol/agent-version";
import type { Fleet, Site } from "@roamfleet/protocol/routes";
import type { Body, JsonRouteName, ListRouteName, Rest } from "@roamfleet/sdk/browser";
import { infiniteQueryOptions, queryOptions, useMutation, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { hasFailed } from "../ui/query-state.tsx";
import { isOutage, OUTAGE_REASON } from "../ui/outage.ts";
import { notifyDone, notifyError } from "../ui/toasts.tsx";
import { api, randomId } from "./client.ts";
import { refetchQueries } from "./query-client.ts";

/** The packages on the server change rarely, and no event reports a change. */
const HOSTED_STALE_MS = 60_000;

type Args = { params?: Record<string, string>; query?: Record<string, unknown> } | undefined;

/** Returns the query key without undefined parts. */
function keyOf(args: Args): Record<string, unknown> {
  const { params, query } = JSON.parse(JSON.stringify(args ?? {})) as NonNullable<Args>;
  return { ...(params === undefined ? {} : { params }), ...(query === undefined ? {} : { query }) };
}

/** Returns useQuery options for a route: `useQuery(query("getRobot", { params: { id } }))`. The key starts with the route's name. */
export function query<N extends JsonRouteName>(name: N, ...rest: Rest<N>) {
  return queryOptions({
    queryKey: [name, keyOf(rest[0] as Args)] as const,
    queryFn: async ({ signal }): Promise<Body<N>> => (await api.call(name, ...([{ ...rest[0], signal }] as unknown as Rest<N>))).body,
  });
}

/** Returns useInfiniteQuery options for a list with cursors. Use `rowsOf(result.data)` for the rows. */
export function pagesQuery<N extends ListRouteName>(name: N, ...rest: Rest<N>) {
  const args = rest[0] as Args;
  return infiniteQueryOptions({
    queryKey: [name, keyOf(args), "pages"] as const,
    queryFn: async ({ pageParam, signal }): Promise<Body<N>> => {
      const page = { ...args, query: { ...args?.query, cursor: pageParam }, signal };
      return (await api.call(name, ...([page] as unknown as Rest<N>))).body;
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => (last as { next_cursor: string | null }).next_cursor ?? undefined,
  });
}

/** Returns the rows of all loaded pages. */
export const rowsOf = <T>(data: { pages: readonly { items: readonly T[] }[] } | undefined): T[] =>
  data?.pages.flatMap(({ items }) => [...items]) ?? [];

export interface ActionOptions<N extends JsonRouteName> {
  /** Notification text after success. */
  done?: string | ((body: Body<N>) => string);
  onSuccess?: (body: Body<N>) => void;
  /** Shows no error notification, because the page shows the error. */
  quiet?: boolean;
}

/**
 * A mutation for a route that changes data. Each call has a new Idempotency-Key, so that a retry after a lost response has no second
 * effect. After success, all queries are refetched immediately; other browsers refetch when they receive the event of the change.
 */
export function useAction<N extends JsonRouteName>(name: N, options: ActionOptions<N> = {}) {
  return useMutation({
    mutationFn: async (args: Rest<N>[0]): Promise<Body<N>> => {
      if (isOutage()) throw new Error(OUTAGE_REASON);
      return (await api.call(name, ...([{ ...args, idempotency_key: randomId() }] as unknown as Rest<N>))).body;
    },
    onSuccess: (body) => {
      refetchQueries();
      if (options.done !== undefined) notifyDone(typeof options.done === "string" ? options.done : options.done(body));
      options.onSuccess?.(body);
    },
    onError: (error) => {
      if (options.quiet !== true) notifyError(error);
    },
  });
}

/** Loads the version of the agent that the server hosts; undefined if it hosts none. */
export const useHostedVersion = (): string | undefined =>
  versionNumbers(useQuery({ ...query("getHostedPackages"), staleTime: HOSTED_STALE_MS }).data?.data.version ?? "");

export interface Places {
  sites: readonly Site[];
  fleets: readonly Fleet[];
  /** Names of sites by ID. Sites that the user cannot see are missing. */
  site_names: ReadonlyMap<string, string>;
  fleet_names: ReadonlyMap<string, string>;
  /** Whether the sites and the fleets are loaded. */
  is_read: boolean;
  /** Whether they are not loaded because requests fail. */
  has_failed: boolean;
}

/** Loads all sites and fleets that the user can see, for names and selects. */
export function usePlaces(): Places {
  const [site_list, fleet_list] = [useQuery(query("listSites")), useQuery(query("listFleets"))];
  const [sites, fleets] = [site_list.data?.items, fleet_list.data?.items];
  const has_failed = hasFailed(site_list) || hasFailed(fleet_list);
  return useMemo(
    () => ({
      sites: sites ?? [],
      fleets: fleets ?? [],
      site_names: new Map((sites ?? []).map(({ id, name }) => [id, name])),
      fleet_names: new Map((fleets ?? []).map(({ id, name }) => [id, name])),
      is_read: sites !== undefined && fleets !== undefined,
      has_failed,
    }),
    [sites, fleets, has_failed],
  );
}
