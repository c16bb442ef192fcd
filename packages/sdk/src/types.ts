import type { FleetStreamName, StreamName } from "@robofleet/protocol/paths";
import type { Query } from "./options.ts";
import type { Body, CallOptions, JsonRouteName, ListRouteName, Rest } from "./route-types.ts";
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
  /** Sent as it is when it is text or bytes, else as JSON. */
  body?: unknown;
}

type RouteMethods = { [N in JsonRouteName]: (...rest: Rest<N>) => Promise<Body<N>> };

/**
 * One method a route. Every method throws ApiError for an answer that is an error,
 * Unreachable when none came, and the signal's reason when it was aborted.
 */
export interface RoutesClient extends RouteMethods {
  readonly base_url: string;
  /** Like the method of that name, with status and headers. */
  call<N extends JsonRouteName>(name: N, ...rest: Rest<N>): Promise<Answer<Body<N>>>;
  /** Pages of a list, following the cursor to its end. */
  pages<N extends ListRouteName>(name: N, ...rest: Rest<N>): AsyncGenerator<Body<N>, void, void>;
  /** Any path of the service; does not throw for an error status. */
  request(method: string, path: string, args?: RequestArguments): Promise<Response>;
}

/** The same in Node, with what goes beyond one request there. */
export interface Client extends RoutesClient {
  /** Uploads a file as a release's artifact, from where an earlier upload of it stopped. */
  upload(args: UploadFileArguments): Promise<Body<"getRelease">>;
  /** Opens a live stream of a robot. */
  stream(name: StreamName, args: StreamArguments): Promise<Stream>;
  stream(name: FleetStreamName, args: FleetStreamArguments): Promise<Stream>;
}
