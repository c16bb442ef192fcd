import type { FleetStreamName, StreamName } from "@roamfleet/protocol/paths";
import type { Body, CallOptions, JsonRouteName, ListRouteName, Query, Rest } from "./options.ts";
import type { FleetStreamArguments, Stream, StreamArguments } from "./stream.ts";
import type { UploadFileArguments } from "./upload.ts";

export interface Answer<T> {
  status: number;
  headers: Headers;
  body: T;
}

export interface RequestArguments extends CallOptions {
  query?: Query | undefined;
  headers?: Record<string, string> | undefined;
  /** The request body. A string or bytes are sent unchanged, any other value as JSON. */
  body?: unknown;
}

type RouteMethods = { [N in JsonRouteName]: (...rest: Rest<N>) => Promise<Body<N>> };

/**
 * One method per route. Each throws ApiError for an error response, Unreachable if there was no response, and the reason of `signal` if
 * that was aborted.
 */
export interface RoutesClient extends RouteMethods {
  readonly base_url: string;
  /** Calls the route `name` like its method, but returns status and headers too. */
  call<N extends JsonRouteName>(name: N, ...rest: Rest<N>): Promise<Answer<Body<N>>>;
  /** Yields all pages of a list, up to its end. */
  pages<N extends ListRouteName>(name: N, ...rest: Rest<N>): AsyncGenerator<Body<N>, void, void>;
  /** Requests any path of the service; does not throw for an error status. */
  request(method: string, path: string, args?: RequestArguments): Promise<Response>;
}

/** The client in Node, with uploads and streams. */
export interface Client extends RoutesClient {
  /** Uploads a file as a release's artifact, resuming an earlier upload. */
  upload(args: UploadFileArguments): Promise<Body<"getRelease">>;
  /** Opens a live stream of a robot. */
  stream(name: StreamName, args: StreamArguments): Promise<Stream>;
  stream(name: FleetStreamName, args: FleetStreamArguments): Promise<Stream>;
}
