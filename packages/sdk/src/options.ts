import type { Clock } from "@robofleet/clock";

export interface ClientOptions {
  /** Address of the service, such as `https://fleet.example.org`; a path in it stays in front of every route. */
  base_url: string;
  token?: string | undefined;
  /** Org to act in when the token has several (`X-Service-Org-Id`). */
  org_id?: string | undefined;
  /** The service's admin token; sent to `/api/admin/` and `/metrics` only. */
  admin_token?: string | undefined;
  /** In a browser, whose cookie stands for the token: what its changing requests must send, as the session says. */
  csrf_token?: (() => string | undefined) | undefined;
  /** PEM of the only certificate authority that is trusted; by default those that this machine knows. */
  ca?: string | undefined;
  fetch?: typeof fetch;
  clock?: Clock;
  /** How often a call is tried again (default 3). */
  retries?: number;
  /** Longest wait for one answer in milliseconds (default 60,000). */
  timeout_ms?: number;
  /** Told before each wait for another try. */
  on_retry?: (wait: { wait_ms: number; error: Error }) => void;
}

/** Names and values of a query, several of a name as a list; those without a value are left out. */
export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;
