import { ApiError, type BrowserClient, createBrowserClient } from "@roamfleet/sdk/browser";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { tellDone } from "../../ui/index.ts";

const TIMEOUT_MS = 30_000;

/** Creates a client for the service administrator. The token is only in memory, until the page is closed. */
export const adminClient = (admin_token: string | undefined): BrowserClient =>
  createBrowserClient({
    base_url: window.location.origin,
    timeout_ms: TIMEOUT_MS,
    retries: 1,
    ...(admin_token === undefined ? {} : { admin_token }),
  });

/** Why the server refused the token or its absence. */
export type Refusal = "token_needed" | "elsewhere" | undefined;

/** 401: a token is required. 403: the server accepts admin requests from its own machine only. */
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
      if (done !== undefined) tellDone(done);
      onSuccess?.(answer);
    },
  });
}
