import type { Route } from "@robofleet/protocol/routes";
import { Http, type Reply } from "../spec/http.ts";
import type { Harness } from "../harness/index.ts";
import type { SampleRequest } from "./sample-requests.ts";

const VERSION = { "tus-resumable": "1.0.0" };
/** What the routes of resumable uploads want beside. */
const TUS: Record<string, Record<string, string>> = {
  startUpload: { ...VERSION, "upload-length": "3" },
  continueUpload: { ...VERSION, "upload-offset": "0" },
  endUpload: VERSION,
};

/** Sends a sample of a route, with a token or whatever other credentials; uploads send a few bytes. */
export function askRoute(
  plane: Pick<Harness, "fetch" | "url">,
  route: Route,
  request: SampleRequest,
  credentials: { token?: string | undefined; headers?: Record<string, string> },
): Promise<Reply> {
  const { path, query, body } = request;
  const search = new URLSearchParams(query).toString();
  const key = route.idempotency === "required" ? { "idempotency-key": crypto.randomUUID() } : {};
  const upload = route.consumes === undefined ? {} : { raw: "abc", headers: { "content-type": route.consumes } };
  const headers = { ...key, ...TUS[route.name], ...upload.headers, ...credentials.headers };
  return new Http(plane, credentials.token).send(route.method, search === "" ? path : `${path}?${search}`, {
    ...(upload.raw === undefined ? { body } : { raw: upload.raw }),
    headers,
  });
}
