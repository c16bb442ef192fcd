import { createBrowserClient } from "@roamfleet/sdk/browser";

let csrf_token: string | undefined;

/** What changing requests must send, as the session said it. */
export function holdCsrfToken(token: string | undefined): void {
  csrf_token = token;
}

const TIMEOUT_MS = 30_000;

/** The server that this page came from, spoken to by the cookie of the session. */
export const api = createBrowserClient({
  base_url: window.location.origin,
  csrf_token: () => csrf_token,
  timeout_ms: TIMEOUT_MS,
  // The page shows at once that something is wrong, and tries again by itself: see queries.ts.
  retries: 1,
});
