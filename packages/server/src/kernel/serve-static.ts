import type { RouteHost } from "./serve.ts";

export interface StaticFile {
  path: string;
  body: string;
  content_type: string;
  headers?: Record<string, string>;
}

/** Serves one static file without authentication. It is not an API route and not in the OpenAPI document. */
export function serveStatic(http: RouteHost, { path, body, content_type, headers = {} }: StaticFile): void {
  http.json.get(path, { config: { route: "static" } }, (_request, reply) => reply.headers(headers).type(content_type).send(body));
  http.methods.add("GET", path);
}
