import { randomBytes } from "node:crypto";
import { fleetStreamAccess, SECRET_PREFIXES, streamAccess } from "@roamfleet/protocol";
import { type BodyOf, routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { isOutage } from "../../engines/db/index.ts";
import { type Credentials, proofOf } from "../../kernel/authenticate.ts";
import { authorize } from "../../kernel/authorize.ts";
import { badRequest, forbidden, unauthorized, unauthorizedKnown } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { type HeldProof, holdProof, secretHash } from "../../kernel/proof.ts";
import { deleteIsolated } from "../../kernel/retention.ts";
import { Answer, serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { requireFleet } from "../fleets/index.ts";
import { requireRobot } from "../robots/index.ts";
import { deleteExpiredTickets, insertTicket, useTicket } from "./store-tickets.ts";

const TICKET_MS = 30_000;
/** A ticket that is over is known for so long still: who comes with it late did not guess. */
const KNOWN_AFTER_END_MS = 600_000;
const SECRET_BYTES = 32;
const ACCESS = { ...streamAccess, ...fleetStreamAccess };

/**
 * A ticket stands in a URL where a token might be seen: in a browser's history, in the log of a proxy. It opens one stream of
 * one robot or fleet, once and soon, and says nothing of the token or the session that it was made with.
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

/** The robot, or of a stream of fleets the fleet, and nothing beside. */
function objectOf({ robot_id, fleet_id, stream }: BodyOf<typeof routes.createStreamTicket>): string {
  const of_fleet = stream in fleetStreamAccess;
  const [id, other] = of_fleet ? [fleet_id, robot_id] : [robot_id, fleet_id];
  if (id === undefined || other !== undefined)
    throw badRequest(`a ticket for the stream ${stream} needs ${of_fleet ? "fleet_id" : "robot_id"}, and no other id`);
  return id;
}

/** What the request of a known caller was sent with. */
function heldBy(credentials: Pick<Credentials, "headers" | "site">): HeldProof {
  const proof = proofOf(credentials);
  if (proof === undefined) throw new Error("the route let in who shows nothing");
  return holdProof(proof);
}

/** What a ticket is shown for. */
export interface TicketUse {
  stream: string;
  object_id: string;
  /** That the request names beside. */
  org_id: string | undefined;
}

/** Whoever came with the ticket has used it up, whatever it is answered. Throws 401, and 403 for another org than the ticket's. */
export async function takeTicket(plane: Plane, ticket: string, use: TicketUse): Promise<{ held: HeldProof; org_id: string }> {
  const found = await useTicket(plane.db, secretHash(ticket));
  if (found === undefined) throw unauthorized("the ticket is not known");
  if (found.uses > 1) throw unauthorizedKnown("the ticket was used before");
  if (found.expires_at <= plane.clock.now()) throw unauthorizedKnown("the ticket has expired");
  if (found.stream !== use.stream || found.object_id !== use.object_id) throw unauthorizedKnown("the ticket is for another stream");
  if (use.org_id !== undefined && use.org_id !== found.org_id) throw forbidden(`the ticket is about org ${found.org_id}`);
  return { held: { by: found.proof_by, hash: found.proof_hash }, org_id: found.org_id };
}

/** Deletes the tickets that nobody comes with any more. */
export const sweepTickets = ({ db, retention_clock }: Plane): Promise<number> =>
  deleteIsolated(isOutage, (limit, offset) =>
    deleteExpiredTickets(db, new Date(retention_clock.now().getTime() - KNOWN_AFTER_END_MS), limit, offset),
  );
