import type { Clock } from "@roamfleet/clock";

export interface ClientOptions {
  /** Address of the service, such as `https://fleet.example.org`; a path in it is prepended to every route. */
  base_url: string;
  token?: string | undefined;
  /** Org to use if the token has several (`X-Service-Org-Id`). */
  org_id?: string | undefined;
  /** The service's admin token; sent to `/api/admin/` and `/metrics` only. */
  admin_token?: string | undefined;
  /** In a browser with a session cookie: returns the session's CSRF token, which changing requests must send. */
  csrf_token?: (() => string | undefined) | undefined;
  /** PEM of the only trusted certificate authority; default: the system's authorities. */
  ca?: string | undefined;
  fetch?: typeof fetch;
  clock?: Clock;
  /** Maximum retries of a call (default 3). */
  retries?: number;
  /** Response timeout in milliseconds (default 60,000). */
  timeout_ms?: number;
  /** Called before each retry delay. */
  on_retry?: (wait: { wait_ms: number; error: Error }) => void;
}

/** Names and values of a query; arrays repeat the name, undefined values are omitted. */
export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;
