import type { Query, QueryKey } from "@tanstack/react-query";
import { queryClient } from "./query-client.ts";

/** Queries that are read once more when what is under way has come. */
const once_more = new Set<string>();

/**
 * Has what begins with the key read again, if it is on the screen; the rest is marked and read when it is looked at. What is
 * under way may be older than the change: it is not broken off, or under many changes nothing would ever come, but read once
 * more afterwards.
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
