import type { IncomingMessage } from "node:http";
import type { Plane } from "../../context.ts";
import { authorize } from "../../kernel/authorize.ts";
import {
  authenticateAgain,
  authenticatePortal,
  countRequest,
  type Credentials,
  proofOf,
  requireCsrfProof,
} from "../../kernel/authenticate.ts";
import { checkText } from "../../kernel/body.ts";
import { type Caller, type HashedProof, hashProof, requireRole } from "../../kernel/caller.ts";
import { badRequest, Fault, httpError, notFound, printable, unauthorized } from "../../kernel/fault.ts";
import { clientAddress, siteOf } from "../../kernel/networks.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireRobot } from "../robots/index.ts";
import { STREAM_KINDS } from "./kinds.ts";
import type { StartStream, StreamKind } from "./stream-kind.ts";
import { takeTicket } from "./tickets.ts";
import type { Watching } from "./viewer.ts";

/** Returns the unchanged path and the query of a request. Does not use the class URL, because it rejects or rewrites some paths. */
export function targetOf({ url = "/" }: IncomingMessage): { path: string; query: URLSearchParams } {
  const [path = "/", ...query] = url.split("?");
  return { path, query: new URLSearchParams(query.join("?")) };
}

/**
 * Returns the kind of stream that a path names, and the id of its robot or fleet. Returns undefined if the path is not that of a stream.
 */
export function streamOf(path: string): { kind: StreamKind; robot_id: string } | undefined {
  for (const kind of STREAM_KINDS) {
    const id = kind.pattern.exec(path)?.[1];
    if (id !== undefined) return { kind, robot_id: decoded(id) };
  }
  return undefined;
}

function decoded(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}

/** A viewer that may open a stream, and the function that starts the stream. */
export interface Admitted extends Watching {
  kind: StreamKind;
  /** Starts the stream with the parameters of the query. */
  start: StartStream;
}

/** The part of a request that is needed even if the request is refused. It is set as soon as the caller is known. */
export interface Seen {
  org_id?: string;
}

/** Checks in this order whether the viewer's token, role, query parameters and robot are valid. Throws the error that the client gets. */
export async function admitViewer(plane: Plane, request: IncomingMessage, seen: Seen): Promise<Admitted> {
  const { path, query } = targetOf(request);
  const stream = streamOf(path);
  if (stream === undefined) throw notFound("path", path);
  const { kind, robot_id } = stream;
  const credentials: Credentials = {
    headers: request.headers,
    ip: clientAddress(request, plane.proxies),
    peer: request.socket.remoteAddress,
    site: () => siteOf(request, plane.proxies),
  };
  const { caller, held } = await identify(plane, credentials, query, { stream: kind.name, object_id: robot_id });
  seen.org_id = caller.org_id;
  requireCsrfProof(credentials, caller, query.has("ticket") ? "opens_by_ticket" : "opens");
  requireRole(caller, kind.role);
  checkQuery(query, kind);
  const start = kind.prepare(query, { id: robot_id, plane });
  if (robot_id.includes("\0")) throw notFound("robot", robot_id);
  const db = plane.db.forOrg(caller.org_id);
  await authorize(plane.findPlaces, db, caller, kind.row, { params: { id: robot_id }, query: {}, body: {} });
  if (kind.of === "fleet") await requireFleet(db, caller.org_id, robot_id);
  const decommissioned = kind.of === "robot" && (await requireRobot(db, caller.org_id, robot_id)).decommissioned;
  return { kind, caller, held, robot_id, decommissioned, ip: credentials.ip, start };
}

/** Authenticates a viewer by a ticket, a token or a session cookie. */
async function identify(
  plane: Plane,
  credentials: Credentials,
  query: URLSearchParams,
  use: { stream: string; object_id: string },
): Promise<{ caller: Caller; held: HashedProof }> {
  const org_id = query.get("org_id") ?? undefined;
  const ticket = query.get("ticket");
  if (ticket !== null) {
    if (query.has("token")) throw badRequest("send a token or a ticket, not both");
    return await countRequest(plane, credentials, "ticket", async () => {
      const { held, org_id: of } = await takeTicket(plane, ticket, { ...use, org_id });
      return { caller: await authenticateAgain(plane, held, of), held };
    });
  }
  const proof = proofOf(credentials, query.get("token") ?? undefined);
  if (proof === undefined) throw unauthorized("a token is needed: Authorization: Bearer <token>");
  return { caller: await authenticatePortal(plane, credentials, proof, org_id), held: hashProof(proof) };
}

function checkQuery(query: URLSearchParams, { query: known }: StreamKind): void {
  const allowed = ["token", "ticket", "org_id", ...known];
  for (const name of new Set(query.keys())) {
    if (!allowed.includes(name)) throw badRequest(`unknown query parameter ${printable(name)}; valid parameters are ${allowed.join(", ")}`);
    if (query.getAll(name).length > 1) throw badRequest(`query parameter ${name} is given twice`);
    checkText(query.get(name) ?? "", "the query");
  }
}

const WEBSOCKET_VERSION = "13";

/** Refuses invalid handshakes before the WebSocket library does, so that errors have the format of the API. */
export function checkHandshake({ method, headers }: IncomingMessage): void {
  if (method !== "GET") throw httpError(405, `a WebSocket cannot be opened with ${method}`, { allow: "GET, HEAD" });
  if (headers["sec-websocket-version"] !== WEBSOCKET_VERSION) {
    throw new Fault("bad_request", "Sec-WebSocket-Version must be 13", { headers: { "sec-websocket-version": WEBSOCKET_VERSION } });
  }
  if (!/^[+/0-9A-Za-z]{22}==$/.test(headers["sec-websocket-key"] ?? "")) throw badRequest("Sec-WebSocket-Key is not valid");
  const offered = headers["sec-websocket-protocol"];
  if (offered !== undefined && !isProtocolList(offered)) throw badRequest("Sec-WebSocket-Protocol is not valid");
}

/** Whether a text is a comma-separated list of valid, distinct names of subprotocols (HTTP tokens). */
function isProtocolList(text: string): boolean {
  const names = text.split(",").map((name) => name.trim());
  return names.every((name) => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) && new Set(names).size === names.length;
}
