import type { IncomingMessage } from "node:http";
import type { Plane } from "../../../context.ts";
import { authenticateAgain } from "../../../kernel/authenticate.ts";
import { requireRole } from "../../../kernel/caller.ts";
import { badRequest } from "../../../kernel/fault.ts";
import { type Admitted, type Seen, targetOf } from "../admit.ts";
import { STREAM_KINDS } from "../kinds.ts";
import { LogCursor } from "../log-cursor.ts";
import { decodeHeader, encodeHeader } from "./node-request.ts";

/**
 * Query parameters that are not forwarded to the serving node. The caller is already authenticated, and the serving node must not see the
 * caller's secrets.
 */
const CREDENTIALS = ["token", "ticket", "org_id"];
const START_OF_LOG = "1970-01-01T00:00:00Z";

/**
 * The data about an admitted viewer that its node sends to the node that serves the stream. Contains only the hash of the viewer's
 * credential.
 */
interface Admission {
  kind: string;
  robot_id: string;
  org_id: string;
  held: { by: "token" | "session"; hash: string };
  ip: string;
  decommissioned: boolean;
  request_id: string;
}

/**
 * Returns the path and query for relaying a viewer to another node, without credentials. If there is a log cursor, also adds the time of
 * its position as `after`. The present version ignores that time. An earlier version ignores the cursor instead, and without `after` it
 * would start with the last records.
 */
export function relayedTarget(plane: Plane, request: IncomingMessage, robot_id: string): string {
  const { path, query } = targetOf(request);
  for (const name of CREDENTIALS) query.delete(name);
  const cursor = query.get("cursor");
  if (cursor !== null && cursor !== "") {
    const end = LogCursor.decode(cursor, { id: robot_id, plane }).positionsOf([robot_id]).get(robot_id);
    query.set("after", end?.received_at ?? START_OF_LOG);
  }
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}

/** Returns the query of a relayed viewer, without the time `after` that was added for earlier versions. */
function relayedQuery(request: IncomingMessage): URLSearchParams {
  const { query } = targetOf(request);
  if ((query.get("cursor") ?? "") !== "") query.delete("after");
  return query;
}

export function encodeAdmission({ kind, robot_id, caller, held, ip, decommissioned }: Admitted, request_id: string): string {
  const admission: Admission = {
    kind: kind.name,
    robot_id,
    org_id: caller.org_id,
    held: { by: held.by, hash: held.hash.toString("base64url") },
    ip,
    decommissioned,
    request_id,
  };
  return encodeHeader(admission);
}

/** Reads the data that another node sent about a viewer that it admitted. Throws 400 if this version cannot read the data. */
export function decodeAdmission(request: IncomingMessage): Admission {
  const admission = decodeHeader(request);
  if (!isAdmission(admission))
    throw badRequest("a server of another version relayed this stream in a format that this server does not support");
  return admission;
}

function isAdmission(value: unknown): value is Admission {
  if (typeof value !== "object" || value === null) return false;
  const { kind, robot_id, org_id, held, ip, decommissioned, request_id } = value as Partial<Admission>;
  return (
    [kind, robot_id, org_id, ip, request_id, held?.hash].every((one) => typeof one === "string") &&
    (held?.by === "token" || held?.by === "session") &&
    typeof decommissioned === "boolean"
  );
}

/**
 * Admits a viewer that another node has already admitted. Checks the viewer's permissions again, by the hash of its credential, because a
 * node does not trust the checks of other nodes.
 */
export async function readmit(plane: Plane, request: IncomingMessage, admission: Admission, seen: Seen): Promise<Admitted> {
  const { robot_id, org_id, ip, decommissioned } = admission;
  const kind = STREAM_KINDS.find(({ name }) => name === admission.kind);
  if (kind === undefined) throw badRequest(`this server does not support the stream ${admission.kind}`);
  seen.org_id = org_id;
  const held = { by: admission.held.by, hash: Buffer.from(admission.held.hash, "base64url") };
  const caller = await authenticateAgain(plane, held, org_id);
  requireRole(caller, kind.role);
  return { kind, caller, held, robot_id, decommissioned, ip, start: kind.prepare(relayedQuery(request), { id: robot_id, plane }) };
}
