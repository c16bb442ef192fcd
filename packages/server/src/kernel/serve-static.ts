import type { RouteHost } from "./serve.ts";

export interface StaticFile {
  path: string;
  body: string;
  content_type: string;
  headers?: Record<string, string>;
}

/** Serves a file of our own to anybody. It is no route of the API, and in no document. */
export function serveStatic(http: RouteHost, { path, body, content_type, headers = {} }: StaticFile): void {
  http.json.get(path, { config: { route: "static" } }, (_request, reply) => reply.headers(headers).type(content_type).send(body));
  http.methods.add("GET", path);
}
