import type { Clock } from "@robofleet/clock";
import type { RouteName, StreamName } from "@robofleet/protocol/paths";
import type { AnswerOf, BodyOf, ParamsOf, QueryOf, Routes } from "@robofleet/protocol/routes";
import type { Stream, StreamArguments } from "./stream.ts";
import type { UploadArguments } from "./upload.ts";

export interface ClientOptions {
  /** Address of the service, such as `https://fleet.example.org`; a path in it stays in front of every route. */
  base_url: string;
  token?: string | undefined;
  /** Org to act in when the token has several (`X-Service-Org-Id`). */
  org_id?: string | undefined;
  /** The service's admin token; sent to `/api/admin/` and `/metrics` only. */
  admin_token?: string | undefined;
  fetch?: typeof fetch;
  clock?: Clock;
  /** How often a call is tried again (default 3). */
  retries?: number;
  /** Longest wait for one answer in milliseconds (default 60,000). */
  timeout_ms?: number;
  /** Told before each wait for another try. */
  on_retry?: (wait: { wait_ms: number; error: Error }) => void;
}

/** Optional fields may also be given as undefined: then they are not sent. */
type Loose<T> = { [K in keyof T]: Record<never, never> extends Pick<T, K> ? T[K] | undefined : T[K] };
type Part<K extends string, T> = keyof T extends never
  ? { [P in K]?: undefined }
  : Record<never, never> extends T
    ? { [P in K]?: Loose<T> | undefined }
    : { [P in K]: Loose<T> };

interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Longest wait for this answer in milliseconds. */
  timeout_ms?: number | undefined;
}
type Key<R> = R extends { idempotency: "required" } ? { idempotency_key: string } : { idempotency_key?: string | undefined };

/** What a route is called with: `params` fill its path, `query` and `body` are its own. */
export type Arguments<N extends RouteName> = Part<"params", ParamsOf<Routes[N]>> &
  Part<"query", QueryOf<Routes[N]>> &
  Part<"body", BodyOf<Routes[N]>> &
  Key<Routes[N]> &
  CallOptions;

type Rest<N extends RouteName> = Record<never, never> extends Arguments<N> ? [args?: Arguments<N>] : [args: Arguments<N>];

/** The JSON that a route answers. */
export type Body<N extends RouteName> = AnswerOf<Routes[N]>;

/** Routes that answer JSON. The others (artifacts, metrics, the reference) are fetched by `request`. */
export type JsonRouteName = { [N in RouteName]: [Body<N>] extends [never] ? never : N }[RouteName];
/** Routes that answer a list. */
export type ListRouteName = { [N in JsonRouteName]: Body<N> extends { items: unknown[]; next_cursor: string | null } ? N : never }[JsonRouteName];

export interface Answer<T> {
  status: number;
  headers: Headers;
  body: T;
}

export interface RequestArguments extends CallOptions {
  query?: Record<string, unknown> | undefined;
  headers?: Record<string, string> | undefined;
  /** Sent as it is when it is text or bytes, else as JSON. */
  body?: unknown;
}

type RouteMethods = { [N in JsonRouteName]: (...rest: Rest<N>) => Promise<Body<N>> };

/**
 * One method a route, and what goes beyond one request. Every method throws ApiError for an answer that is an error,
 * Unreachable when none came, and the signal's reason when it was aborted.
 */
export interface Client extends RouteMethods {
  readonly base_url: string;
  /** Like the method of that name, with status and headers. */
  call<N extends JsonRouteName>(name: N, ...rest: Rest<N>): Promise<Answer<Body<N>>>;
  /** Pages of a list, following the cursor to its end. */
  pages<N extends ListRouteName>(name: N, ...rest: Rest<N>): AsyncGenerator<Body<N>, void, void>;
  /** Any path of the service; does not throw for an error status. */
  request(method: string, path: string, args?: RequestArguments): Promise<Response>;
  /** Uploads a file as a release's artifact. */
  upload(args: UploadArguments): Promise<Body<"putReleaseArtifact">>;
  /** Opens a live stream of a robot. */
  stream(name: StreamName, args: StreamArguments): Promise<Stream>;
}
