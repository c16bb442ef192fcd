export { createClient } from "./client.ts";
export { checkBaseUrl } from "./connection.ts";
export { ApiError, Unreachable } from "./errors.ts";
export type { ClientOptions, Query } from "./options.ts";
export type { Arguments, Body, JsonRouteName, ListRouteName } from "./route-types.ts";
export type { Ending, Frame, Stream, StreamArguments } from "./stream.ts";
export type { Answer, Client, RequestArguments } from "./types.ts";
export type { UploadArguments } from "./upload.ts";
