import { openConnection } from "./connection.ts";
import type { ClientOptions } from "./options.ts";
import { routesClient } from "./routes-client.ts";
import type { Client } from "./types.ts";

export { isLogCursor, type LogCursorFrame, readLogFrame } from "@roamfleet/protocol/log-frame";
export { checkBaseUrl } from "./connection.ts";
export { ApiError, Unreachable, unreachable } from "./errors.ts";
export { pinnedFetch } from "./pinned-fetch.ts";
export type { Arguments, Body, ClientOptions, JsonRouteName, ListRouteName, Query } from "./options.ts";
export type { Ending, Frame, Stream, StreamArguments } from "./stream.ts";
export type { Answer, Client, RequestArguments } from "./types.ts";
export type { UploadFileArguments } from "./upload.ts";

/** Creates a client of one service for Node. Features that few commands need are loaded on demand. */
export function createClient(options: ClientOptions): Client {
  const { ca } = options;
  const connection = openConnection({ ...options, fetch: options.fetch ?? (ca === undefined ? fetch : fetchWithAuthority(ca)) });
  return Object.assign(routesClient(connection), {
    upload: async (args: never) => (await import("./upload.ts")).uploadFile(connection, args),
    stream: async (name: never, args: never) => (await import("./stream.ts")).openStream(connection, name, args),
  });
}

/**
 * Returns a fetch that trusts only this certificate authority. It is loaded on demand, because most services have a publicly trusted
 * certificate.
 */
function fetchWithAuthority(ca: string): typeof fetch {
  let made: Promise<typeof fetch> | undefined;
  return async (input, init) => {
    made ??= import("./pinned-fetch.ts").then(({ pinnedFetch }) => pinnedFetch(ca));
    return (await made)(input, init);
  };
}
