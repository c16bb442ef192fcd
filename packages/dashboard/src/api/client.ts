import { createBrowserClient } from "@roamfleet/sdk/browser";

let csrf_token: string | undefined;

/** Stores the session's CSRF token, which requests that change data must send. */
export function holdCsrfToken(token: string | undefined): void {
  csrf_token = token;
}

const TIMEOUT_MS = 30_000;

/** The API client for the server of this page, authenticated by the session cookie. */
export const api = createBrowserClient({
  base_url: window.location.origin,
  csrf_token: () => csrf_token,
  timeout_ms: TIMEOUT_MS,
  // Only one retry: the page shows errors immediately and retries automatically (see queries.ts).
  retries: 1,
});
