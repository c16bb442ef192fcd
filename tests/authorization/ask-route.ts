import type { Route } from "@robofleet/protocol/routes";
import { Http, type Reply } from "../spec/http.ts";
import type { Harness } from "../harness/index.ts";
import type { SampleRequest } from "./sample-requests.ts";

/** Sends a sample of a route, with a token or whatever other credentials; uploads send a few bytes. */
export function askRoute(
  plane: Harness,
  route: Route,
  request: SampleRequest,
  credentials: { token?: string | undefined; headers?: Record<string, string> },
): Promise<Reply> {
  const { path, query, body } = request;
  const search = new URLSearchParams(query).toString();
  const key = route.idempotency === "required" ? { "idempotency-key": crypto.randomUUID() } : {};
  const upload = route.consumes === undefined ? {} : { raw: "abc", headers: { "content-type": route.consumes } };
  const headers = { ...key, ...upload.headers, ...credentials.headers };
  return new Http(plane, credentials.token).send(route.method, search === "" ? path : `${path}?${search}`, {
    ...(upload.raw === undefined ? { body } : { raw: upload.raw }),
    headers,
  });
}
