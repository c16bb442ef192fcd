import { randomBytes } from "node:crypto";
import { fleetStreamAccess, SECRET_PREFIXES, streamAccess } from "@roamfleet/protocol";
import { type BodyOf, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { isOutage } from "../../engines/db/index.ts";
import { type Credentials, proofOf } from "../../kernel/authenticate.ts";
import { authorize } from "../../kernel/authorize.ts";
import { badRequest, forbidden, unauthorized, unauthorizedKnown } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { type HashedProof, hashProof, secretHash } from "../../kernel/caller.ts";
import { deleteIsolated } from "../../kernel/retention.ts";
import { Answer, serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireRobot } from "../robots/index.ts";
import { deleteExpiredTickets, insertTicket, useTicket } from "./store.ts";

const TICKET_MS = 30_000;
/** How long an expired ticket is stored. During this time, a client that sends the ticket does not count as guessing secrets. */
const KNOWN_AFTER_END_MS = 600_000;
const SECRET_BYTES = 32;
const ACCESS = { ...streamAccess, ...fleetStreamAccess };

/**
 * Serves the creation of stream tickets. A ticket opens one stream of one robot or fleet, once and within seconds. The URL of a stream
 * contains a ticket instead of a token, because browser histories and proxy logs store URLs. The token or session cannot be derived from
 * the ticket.
 */
export function ticketRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.createStreamTicket, async (_, { caller, body, db, headers, site, audit }) => {
    const { stream } = body;
    const id = objectOf(body);
    await (stream in fleetStreamAccess ? requireFleet : requireRobot)(db, caller.org_id, id);
    await authorize(plane.findPlaces, db, caller, ACCESS[stream], { params: { id }, query: {}, body: {} });
    audit.object_id = id;
    audit.data = { stream };
    const ticket = SECRET_PREFIXES.stream_ticket + randomBytes(SECRET_BYTES).toString("hex");
    const { by, hash } = heldBy({ headers, site });
    const created_at = plane.clock.now();
    const expires_at = new Date(created_at.getTime() + TICKET_MS);
    await insertTicket(db, {
      org_id: caller.org_id,
      hash: secretHash(ticket),
      proof_by: by,
      proof_hash: hash,
      stream,
      object_id: id,
      expires_at,
      created_at,
    });
    return new Answer(
      201,
      { data: { ticket, robot_id: body.robot_id ?? null, fleet_id: body.fleet_id ?? null, stream, expires_at: wireTime(expires_at) } },
      { location: routes.createStreamTicket.path },
    );
  });
}

/**
 * Returns the id of the robot or fleet that the requested stream is for. Throws 400 if the id is missing, or if there is also an id of the
 * other kind.
 */
function objectOf({ robot_id, fleet_id, stream }: BodyOf<typeof routes.createStreamTicket>): string {
  const of_fleet = stream in fleetStreamAccess;
  const [id, other] = of_fleet ? [fleet_id, robot_id] : [robot_id, fleet_id];
  if (id === undefined || other !== undefined)
    throw badRequest(`a ticket for the stream ${stream} needs ${of_fleet ? "fleet_id" : "robot_id"}, and no other id`);
  return id;
}

/** Returns the hash of the credential of an authenticated request. */
function heldBy(credentials: Pick<Credentials, "headers" | "site">): HashedProof {
  const proof = proofOf(credentials);
  if (proof === undefined) throw new Error("the request has no credential");
  return hashProof(proof);
}

/** The request in which a ticket is used. */
interface TicketUse {
  stream: string;
  object_id: string;
  /** The org that the request names. Undefined if it names none. */
  org_id: string | undefined;
}

/**
 * Uses a ticket, which becomes invalid even if the request is refused. Throws 401 if the ticket is invalid for this stream, and 403 if the
 * request names another org.
 */
export async function takeTicket(plane: Plane, ticket: string, use: TicketUse): Promise<{ held: HashedProof; org_id: string }> {
  const found = await useTicket(plane.db, secretHash(ticket));
  if (found === undefined) throw unauthorized("the ticket is not known");
  if (found.uses > 1) throw unauthorizedKnown("the ticket was used before");
  if (found.expires_at <= plane.clock.now()) throw unauthorizedKnown("the ticket has expired");
  if (found.stream !== use.stream || found.object_id !== use.object_id) throw unauthorizedKnown("the ticket is for another stream");
  if (use.org_id !== undefined && use.org_id !== found.org_id) throw forbidden(`the ticket is for org ${found.org_id}`);
  return { held: { by: found.proof_by, hash: found.proof_hash }, org_id: found.org_id };
}

/** Deletes tickets that expired more than KNOWN_AFTER_END_MS ago. */
export const sweepTickets = ({ db, retention_clock }: Plane): Promise<number> =>
  deleteIsolated(isOutage, (limit, offset) =>
    deleteExpiredTickets(db, new Date(retention_clock.now().getTime() - KNOWN_AFTER_END_MS), limit, offset),
  );
