import type { Clock } from "@roamfleet/clock";
import type { RouteName } from "@roamfleet/protocol/paths";
import type { AnswerOf, BodyOf, ParamsOf, QueryOf, Routes } from "@roamfleet/protocol/routes";

export interface ClientOptions {
  /** Address of the service, such as `https://fleet.example.org`; a path in it is prepended to every route. */
  base_url: string;
  token?: string | undefined;
  /** Org that the calls use if the token has access to several (`X-Service-Org-Id`). */
  org_id?: string | undefined;
  /** The service's admin token; sent to `/api/admin/` and `/metrics` only. */
  admin_token?: string | undefined;
  /** Returns the CSRF token of a browser session. Requests that change data must send it with the session cookie. */
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

/** Names and values of a URL query. An array repeats the name for each element. Undefined values are omitted. */
export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

/** Allows undefined as the value of optional fields. Such fields are not sent. */
type Loose<T> = { [K in keyof T]: Record<never, never> extends Pick<T, K> ? T[K] | undefined : T[K] };
type Part<K extends string, T> = keyof T extends never
  ? { [P in K]?: undefined }
  : Record<never, never> extends T
    ? { [P in K]?: Loose<T> | undefined }
    : { [P in K]: Loose<T> };

export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Response timeout in milliseconds. */
  timeout_ms?: number | undefined;
}
type Key<R> = R extends { idempotency: "required" } ? { idempotency_key: string } : { idempotency_key?: string | undefined };

/** Arguments of a route: `params` fill its path, `query` and `body` are the request's. */
export type Arguments<N extends RouteName> = Part<"params", ParamsOf<Routes[N]>> &
  Part<"query", QueryOf<Routes[N]>> &
  Part<"body", BodyOf<Routes[N]>> &
  Key<Routes[N]> &
  CallOptions;

export type Rest<N extends RouteName> = Record<never, never> extends Arguments<N> ? [args?: Arguments<N>] : [args: Arguments<N>];

/** The JSON response of a route. */
export type Body<N extends RouteName> = AnswerOf<Routes[N]>;

/** Routes with a JSON response. Others (artifacts, metrics, the reference) use `request`. */
export type JsonRouteName = { [N in RouteName]: [Body<N>] extends [never] ? never : N }[RouteName];
/** Routes that return a page of a list. */
export type ListRouteName = {
  [N in JsonRouteName]: Body<N> extends { items: unknown[]; next_cursor: string | null } ? N : never;
}[JsonRouteName];
