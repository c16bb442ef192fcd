export { type BrowserClient, createBrowserClient } from "./client.ts";
export { ApiError, Unreachable } from "../errors.ts";
export type { Arguments, Body, JsonRouteName, ListRouteName, Rest } from "../route-types.ts";
export type { SocketArguments, SocketEnding, SocketStream } from "./socket.ts";
export type { UploadBlobArguments } from "./upload.ts";
