import type { Query, QueryKey } from "@tanstack/react-query";
import { queryClient } from "./query-client.ts";

/** Queries to refetch after their current request completes. */
const once_more = new Set<string>();

/**
 * Refetches mounted queries whose keys start with `queryKey`; others are marked stale and refetched when mounted. A request in progress
 * may be older than the change. It is not aborted, or frequent changes would starve the query; the query is refetched afterwards.
 */
export function readAgain(queryKey: QueryKey = []): void {
  for (const query of queryClient.getQueryCache().findAll({ queryKey })) {
    if (query.state.fetchStatus === "fetching" && query.promise !== undefined) readOnceMore(query);
    else invalidate(query);
  }
}

function readOnceMore(query: Query): void {
  if (once_more.has(query.queryHash)) return;
  once_more.add(query.queryHash);
  const after = (): void => {
    once_more.delete(query.queryHash);
    invalidate(query);
  };
  query.promise?.then(after, after);
}

const invalidate = ({ queryKey }: Query): void => void queryClient.invalidateQueries({ queryKey, exact: true, refetchType: "active" });
