export { createClient } from "./client.ts";
export { checkBaseUrl } from "./connection.ts";
export { ApiError, Unreachable } from "./errors.ts";
export type { Ending, Frame, Stream, StreamArguments } from "./stream.ts";
export type { Answer, Arguments, Body, Client, ClientOptions, JsonRouteName, ListRouteName, RequestArguments } from "./types.ts";
export type { UploadArguments } from "./upload.ts";
