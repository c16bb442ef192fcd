import { ApiError, Unreachable } from "@roamfleet/sdk/browser";
import { type Query, QueryCache, QueryClient, type QueryKey } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";

/** Maximum age of data that is shown without a refetch. */
const STALE_MS = 30_000;
const RETRIES = 2;

/** Whether a retry may succeed: there was no response, or the server failed. */
export const mayPass = (error: unknown): boolean => error instanceof Unreachable || (error instanceof ApiError && error.status >= 500);

const on_signed_out = new Set<() => void>();

/** Calls `listener` when the session has ended. Returns a function that unsubscribes. */
export function watchSignedOut(listener: () => void): () => void {
  on_signed_out.add(listener);
  return () => void on_signed_out.delete(listener);
}

const on_answer = new Set<() => void>();

/** Calls `listener` after each response to a query. Returns a function that unsubscribes. */
export function watchAnswers(listener: () => void): () => void {
  on_answer.add(listener);
  return () => void on_answer.delete(listener);
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onSuccess: () => {
      for (const listener of on_answer) listener();
    },
    onError: (error) => {
      if (error instanceof ApiError && error.status === 401) for (const listener of on_signed_out) listener();
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: STALE_MS,
      retry: (tries, error) => tries < RETRIES && mayPass(error),
      refetchOnWindowFocus: true,
      throwOnError: false,
    },
  },
});

/** Queries to refetch after their current request completes. */
const once_more = new Set<string>();

/**
 * Refetches mounted queries whose keys start with `queryKey`; others are marked stale and refetched when mounted. A request in progress
 * may be older than the change. It is not aborted, or frequent changes would starve the query; the query is refetched afterwards.
 */
export function refetchQueries(queryKey: QueryKey = []): void {
  for (const query of queryClient.getQueryCache().findAll({ queryKey })) {
    if (query.state.fetchStatus === "fetching" && query.promise !== undefined) refetchOnceMore(query);
    else invalidate(query);
  }
}

/** Refetches mounted queries whose last request failed temporarily. Returns whether there are any. */
export function refetchFailed(): boolean {
  const failed = queryClient.getQueryCache().findAll({ type: "active", predicate: ({ state }) => mayPass(state.error) });
  for (const query of failed) invalidate(query);
  return failed.length > 0;
}

const onCacheChange = (listener: () => void): (() => void) => queryClient.getQueryCache().subscribe(listener);

/** While a failed query without data is requested again, its state has no error. */
const isFailing = ({ state: { data, error, errorUpdateCount, fetchFailureReason } }: Query): boolean =>
  error === null ? data === undefined && (errorUpdateCount > 0 || mayPass(fetchFailureReason)) : mayPass(error);

/** Whether a mounted query has no current data because its requests fail. */
export const useHasErrors = (): boolean =>
  useSyncExternalStore(onCacheChange, () => queryClient.getQueryCache().findAll({ type: "active" }).some(isFailing));

function refetchOnceMore(query: Query): void {
  if (once_more.has(query.queryHash)) return;
  once_more.add(query.queryHash);
  const after = (): void => {
    once_more.delete(query.queryHash);
    invalidate(query);
  };
  query.promise?.then(after, after);
}

const invalidate = ({ queryKey }: Query): void => void queryClient.invalidateQueries({ queryKey, exact: true, refetchType: "active" });
