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
  // Retry a request only once, because the page shows errors immediately and then retries automatically (see queries.ts).
  retries: 1,
});

/** Returns a UUIDv4. `crypto.randomUUID` is missing on pages served over plain HTTP from another machine. */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
