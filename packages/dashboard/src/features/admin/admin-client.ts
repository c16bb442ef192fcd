import { ApiError, type BrowserClient, createBrowserClient } from "@roamfleet/sdk/browser";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { tellDone } from "../../ui/index.ts";

const TIMEOUT_MS = 30_000;

/** Of the service's administrator. The token lives in this object and nowhere else: it is gone with the page. */
export const adminClient = (admin_token: string | undefined): BrowserClient =>
  createBrowserClient({
    base_url: window.location.origin,
    timeout_ms: TIMEOUT_MS,
    retries: 1,
    ...(admin_token === undefined ? {} : { admin_token }),
  });

/** What the server said of the token, or of there being none. */
export type Refusal = "token_needed" | "elsewhere" | undefined;

/** 401 asks for the token; 403 says that the routes are open to the server's own machine only. */
export function refusalOf(error: unknown): Refusal {
  if (!(error instanceof ApiError)) return undefined;
  return error.status === 401 ? "token_needed" : error.status === 403 ? "elsewhere" : undefined;
}

/** An act of the administrator: what was read is read again afterwards. */
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
