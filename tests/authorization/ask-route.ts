import { CSRF_HEADER } from "@roamfleet/protocol";
import type { Route } from "@roamfleet/protocol/routes";
import { Http, type Reply } from "../spec/http.ts";
import type { Harness } from "../harness/index.ts";
import type { SampleRequest } from "./sample-requests.ts";

const VERSION = { "tus-resumable": "1.0.0" };
/** Additional headers of the routes for resumable uploads. */
const TUS: Record<string, Record<string, string>> = {
  startUpload: { ...VERSION, "upload-length": "3" },
  continueUpload: { ...VERSION, "upload-offset": "0" },
  endUpload: VERSION,
};

/** Returns the request headers of a browser page that signed in with the token; undefined if the sign-in is refused. */
export async function sessionHeaders(plane: Pick<Harness, "fetch" | "url">, token: string): Promise<Record<string, string> | undefined> {
  const { status, headers, data } = await new Http(plane, token).send("POST", "/api/auth/session").then((reply) => ({
    status: reply.status,
    headers: reply.headers,
    data: reply.status === 201 ? reply.data : undefined,
  }));
  if (status !== 201) return undefined;
  const cookie = headers.getSetCookie()[0]?.split(";")[0] ?? "";
  return { cookie, origin: new URL(plane.url).origin, [CSRF_HEADER]: String(data?.csrf_token) };
}

/**
 * Sends a sample request of a route, with a token or other credentials. Uploads send a few bytes. A route that accepts only sessions gets a
 * session that is created from the token.
 */
export async function askRoute(
  plane: Pick<Harness, "fetch" | "url">,
  route: Route,
  request: SampleRequest,
  credentials: { token?: string | undefined; headers?: Record<string, string> },
): Promise<Reply> {
  const { path, query, body } = request;
  const search = new URLSearchParams(query).toString();
  const key = route.idempotency === "required" ? { "idempotency-key": crypto.randomUUID() } : {};
  const upload = route.consumes === undefined ? {} : { raw: "abc", headers: { "content-type": route.consumes } };
  const { token } = credentials;
  const session = route.by === "session" && token !== undefined ? await sessionHeaders(plane, token) : undefined;
  const headers = { ...key, ...TUS[route.name], ...upload.headers, ...session, ...credentials.headers };
  return new Http(plane, session === undefined ? token : undefined).send(route.method, search === "" ? path : `${path}?${search}`, {
    ...(upload.raw === undefined ? { body } : { raw: upload.raw }),
    headers,
  });
}
