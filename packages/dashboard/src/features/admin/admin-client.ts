import { ApiError, type BrowserClient, createBrowserClient } from "@roamfleet/sdk/browser";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { rowsOf } from "../../api/queries.ts";
import { shellLine } from "../../ui/format.ts";
import { notifyDone } from "../../ui/index.ts";

const TIMEOUT_MS = 30_000;

/** Creates a client for the service administrator. The token is only in memory, until the page is closed. */
export const adminClient = (admin_token: string | undefined): BrowserClient =>
  createBrowserClient({
    base_url: window.location.origin,
    timeout_ms: TIMEOUT_MS,
    retries: 1,
    ...(admin_token === undefined ? {} : { admin_token }),
  });

/**
 * Why the server refused an admin request: `token_needed`: a valid admin token is missing; `elsewhere`: the request came from another
 * machine.
 */
export type Refusal = "token_needed" | "elsewhere" | undefined;

/** Converts a refusal by the server. 401: an admin token is required. 403: the server accepts admin requests from its own machine only. */
export function refusalOf(error: unknown): Refusal {
  if (!(error instanceof ApiError)) return undefined;
  return error.status === 401 ? "token_needed" : error.status === 403 ? "elsewhere" : undefined;
}

/** Runs an admin action, then refetches all admin data. */
export function useAdminAction<T>(act: () => Promise<T>, { done, onSuccess }: { done?: string; onSuccess?: (answer: T) => void }) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSuccess: (answer) => {
      void queries.invalidateQueries({ queryKey: ["admin"] });
      if (done !== undefined) notifyDone(done);
      onSuccess?.(answer);
    },
  });
}

interface Page<Row> {
  items: Row[];
  next_cursor: string | null;
}

/** Loads a list of the admin API in pages, for a ListTable. */
export function useAdminPages<Row>(key: readonly unknown[], read: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<Row>>) {
  const query = useInfiniteQuery({
    queryKey: ["admin", ...key],
    queryFn: ({ pageParam, signal }) => read(pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
  });
  const onEnd = (): void => {
    if (!query.isFetchingNextPage) void query.fetchNextPage();
  };
  return { query, rows: rowsOf(query.data), has_more: query.hasNextPage, onEnd };
}

/** The `rf` commands equivalent to the admin actions. `rf` reads the token from ROAMFLEET_ADMIN_TOKEN. */
export const adminLines = {
  list: "rf orgs list",
  create: (name: string) => shellLine("rf", "orgs", "create", name || "NAME"),
  approve: (id: string) => shellLine("rf", "orgs", "approve", id),
  reject: (id: string) => shellLine("rf", "orgs", "reject", id),
  suspend: (id: string) => shellLine("rf", "orgs", "suspend", id),
  resume: (id: string) => shellLine("rf", "orgs", "resume", id),
  audit: "rf audit --service",
};
