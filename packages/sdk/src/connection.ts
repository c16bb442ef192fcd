import { type Clock, systemClock } from "@roamfleet/clock";
import { CSRF_HEADER } from "@roamfleet/protocol/paths";
import { retryAfterSeconds, unreachable, Unreachable } from "./errors.ts";
import type { ClientOptions, Query } from "./options.ts";

/** Maximum Retry-After that a retry waits for. With a longer one, the error is returned to the caller. */
export const RETRY_AFTER_SECONDS_MAX = 60;
const BACKOFF_FIRST_MS = 200;
const TIMEOUT_MS = 60_000;
const RETRIES = 3;

/** The options of a client with their defaults, and values derived from them. */
export interface Connection {
  base_url: string;
  token: string | undefined;
  org_id: string | undefined;
  admin_token: string | undefined;
  csrf_token: () => string | undefined;
  /** Options for opening TLS sockets. */
  tls: { ca?: string };
  fetch: typeof fetch;
  clock: Clock;
  retries: number;
  timeout_ms: number;
  on_retry: (wait: { wait_ms: number; error: Error }) => void;
}

export function openConnection(options: ClientOptions): Connection {
  return {
    base_url: checkBaseUrl(options.base_url),
    token: options.token,
    org_id: options.org_id,
    admin_token: options.admin_token,
    csrf_token: options.csrf_token ?? (() => undefined),
    tls: options.ca === undefined ? {} : { ca: options.ca },
    fetch: options.fetch ?? ((input, init) => fetch(input, init)),
    clock: options.clock ?? systemClock,
    retries: options.retries ?? RETRIES,
    timeout_ms: options.timeout_ms ?? TIMEOUT_MS,
    on_retry: options.on_retry ?? (() => {}),
  };
}

/** Returns the address without a trailing slash. Throws a TypeError with a readable message if it is invalid. */
export function checkBaseUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new TypeError(`"${text}" is not a valid address of a service: use a URL such as http://127.0.0.1:7600`);
  }
  if (url.username !== "" || url.password !== "")
    throw new TypeError("the address of the service must not contain a user name or password");
  if (url.search !== "" || url.hash !== "")
    throw new TypeError(`the address of the service must not have a query or fragment: use "${url.origin}${url.pathname}"`);
  return `${url.origin}${url.pathname}`.replace(/\/+$/, "");
}

export function credentialHeaders(connection: Connection, path: string): Record<string, string> {
  const headers: Record<string, string> = {};
  const admin = connection.admin_token !== undefined && (path.startsWith("/api/admin/") || path === "/metrics");
  if (connection.token !== undefined) headers.authorization = `Bearer ${connection.token}`;
  if (admin && connection.token === undefined) headers.authorization = `Bearer ${connection.admin_token}`;
  else if (admin) headers["x-service-admin-token"] = connection.admin_token!;
  if (connection.org_id !== undefined) headers["x-service-org-id"] = connection.org_id;
  return headers;
}

/** Returns the CSRF header. A request that changes data must send it with the session cookie. */
export function sessionHeaders(connection: Connection): Record<string, string> {
  const token = connection.csrf_token();
  return token === undefined ? {} : { [CSRF_HEADER.toLowerCase()]: token };
}

export function urlOf(connection: Connection, path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== null) search.append(name, String(one));
  }
  const text = search.toString();
  return `${connection.base_url}${path}${text === "" ? "" : `${path.includes("?") ? "&" : "?"}${text}`}`;
}

export interface Attempts {
  /**
   * Whether the call is idempotent: a read, a PUT, or a request with an Idempotency-Key. After a lost connection or a 503, the server may
   * have executed the call already, so only idempotent calls are retried.
   */
  repeatable: boolean;
  signal?: AbortSignal | undefined;
}

/**
 * Retries a call after 429, which the server sends before it executes anything. Retries a repeatable call also after 503 and network
 * errors. Waits for the time in Retry-After, otherwise with exponential backoff.
 */
export async function withRetries(connection: Connection, attempts: Attempts, attempt: () => Promise<Response>): Promise<Response> {
  for (let tried = 1; ; tried += 1) {
    const outcome = await attempt().catch((error: unknown) => error);
    const wait = tried > connection.retries || attempts.signal?.aborted ? undefined : nextWait(connection, attempts, outcome, tried);
    if (wait === undefined) {
      if (outcome instanceof Response) return outcome;
      throw outcome;
    }
    if (outcome instanceof Response) await outcome.body?.cancel();
    connection.on_retry(wait);
    await connection.clock.sleep(wait.wait_ms, attempts.signal);
    attempts.signal?.throwIfAborted();
  }
}

function nextWait(
  connection: Connection,
  attempts: Attempts,
  outcome: unknown,
  tried: number,
): { wait_ms: number; error: Error } | undefined {
  const backoff_ms = BACKOFF_FIRST_MS * 2 ** (tried - 1) * (0.5 + connection.clock.random());
  if (outcome instanceof Unreachable) return attempts.repeatable && outcome.passing ? { wait_ms: backoff_ms, error: outcome } : undefined;
  if (!(outcome instanceof Response)) return undefined;
  if (outcome.status !== 429 && !(outcome.status === 503 && attempts.repeatable)) return undefined;
  const seconds = retryAfterSeconds(outcome.headers, connection.clock);
  if (seconds !== undefined && seconds > RETRY_AFTER_SECONDS_MAX) return undefined;
  const busy = new Error(outcome.status === 429 ? "too many requests" : "the service is not available");
  return { wait_ms: seconds === undefined ? backoff_ms : seconds * 1000, error: busy };
}

/** Runs `work` with a signal that is aborted by the caller's signal or by the timeout. Throws Unreachable after the timeout. */
export async function withDeadline<T>(
  connection: Connection,
  options: { timeout_ms?: number | undefined; signal?: AbortSignal | undefined },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  options.signal?.throwIfAborted();
  const controller = new AbortController();
  const abort = (): void => controller.abort(options.signal?.reason);
  options.signal?.addEventListener("abort", abort, { once: true });
  const timer = connection.clock.setTimer(options.timeout_ms ?? connection.timeout_ms, () =>
    controller.abort(new Unreachable(connection.base_url, "timeout")),
  );
  try {
    return await work(controller.signal);
  } catch (error) {
    if (controller.signal.aborted) throw controller.signal.reason;
    throw error instanceof TypeError ? unreachable(connection.base_url, error) : error;
  } finally {
    timer.cancel();
    options.signal?.removeEventListener("abort", abort);
  }
}
