export { createClient } from "./client.ts";
export { checkBaseUrl } from "./connection.ts";
export { ApiError, Unreachable, unreachable } from "./errors.ts";
export type { ClientOptions, Query } from "./options.ts";
export { pinnedFetch } from "./pinned-fetch.ts";
export type { Arguments, Body, JsonRouteName, ListRouteName } from "./route-types.ts";
export type { Ending, Frame, Stream, StreamArguments } from "./stream.ts";
export type { Answer, Client, RequestArguments } from "./types.ts";
export type { UploadFileArguments } from "./upload.ts";
