import { ApiError, Unreachable } from "@roamfleet/sdk/browser";
import { QueryCache, QueryClient } from "@tanstack/react-query";

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
