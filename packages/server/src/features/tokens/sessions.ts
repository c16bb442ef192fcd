import { randomBytes } from "node:crypto";
import { ID_PREFIXES, SECRET_PREFIXES } from "@roamfleet/protocol";
import { routes, type Session } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { isOutage } from "../../engines/db/index.ts";
import { bearerOf } from "../../kernel/authenticate.ts";
import { type Caller, secretHash } from "../../kernel/caller.ts";
import { notFound, unauthorized } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { deleteIsolated } from "../../kernel/retention.ts";
import { Answer, serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { clearCookie, csrfTokenOf, setCookie, type WebSession } from "../../kernel/web-session.ts";
import {
  deleteEndedSessions,
  deleteSession,
  deleteSurplusSessions,
  findCredential,
  getSession,
  idleSince,
  insertSession,
  moveSession,
  type SessionRow,
} from "./store.ts";

const SECRET_BYTES = 32;
const HOUR_MS = 3_600_000;
/** How long an ended session is stored. During this time, a browser that sends the session's cookie does not count as guessing secrets. */
const KNOWN_AFTER_END_MS = 24 * HOUR_MS;

/** Serves browser sessions. A browser sends a token once, and gets an HttpOnly cookie in return. */
export function sessionRoutes(http: Http, plane: Plane): void {
  const { limits } = plane.settings;
  const toWire = (session: SessionRow, csrf_token: string): Session => ({
    id: session.id,
    org_id: session.current_org_id,
    token_id: session.token_id,
    csrf_token,
    idle_hours: limits.session_idle_hours,
    expires_at: wireTime(session.expires_at),
    created_at: wireTime(session.created_at),
    updated_at: wireTime(session.updated_at),
  });

  serve(http, plane, routes.createSession, async (_, { caller, headers, db, site }) => {
    const now = plane.clock.now();
    const token_hash = secretHash(bearerOf({ headers }) ?? "");
    // Search in all orgs, because the token may belong to another org than the present one.
    const token = await findCredential(plane.db, token_hash);
    if (token?.id !== caller.token_id) throw unauthorized("the token is not known");
    const end = Math.min(now.getTime() + limits.session_hours * HOUR_MS, token.expires_at?.getTime() ?? Infinity);
    const secret = SECRET_PREFIXES.session + randomBytes(SECRET_BYTES).toString("hex");
    const session = await insertSession(db, {
      id: plane.id(ID_PREFIXES.session),
      hash: secretHash(secret),
      token_id: token.id,
      token_hash,
      current_org_id: caller.org_id,
      expires_at: new Date(end),
      created_at: now,
    });
    await deleteSurplusSessions(db, token.id);
    return new Answer(
      201,
      { data: toWire(session, csrfTokenOf(secret)) },
      { location: routes.createSession.path, "set-cookie": setCookie(secret, site(), (end - now.getTime()) / 1_000) },
    );
  });

  serve(http, plane, routes.getSession, async (_, { caller, db }) => {
    const { id, csrf_token } = sessionOf(caller);
    return { data: toWire(await getSession(db, id), csrf_token) };
  });

  serve(http, plane, routes.updateSession, async (_, { caller, body, db, audit }) => {
    const { id, csrf_token, forget } = sessionOf(caller);
    if (!caller.orgs.some(({ org_id }) => org_id === body.org_id)) throw notFound("org", body.org_id);
    audit.object_id = id;
    const session = await moveSession(db, id, body.org_id, plane.clock.now());
    db.afterCommit(forget);
    return new Answer(200, { data: toWire(session, csrf_token) }, { "x-service-org-id": body.org_id });
  });

  serve(http, plane, routes.endSession, async (_, { caller, db, site, audit }) => {
    const { id, forget } = sessionOf(caller);
    audit.object_id = id;
    await deleteSession(db, id);
    db.afterCommit(forget);
    return new Answer<never>(204, "", { "set-cookie": clearCookie(site()) });
  });
}

/** Returns the caller's session. Call it only in routes that accept sessions but no tokens. */
function sessionOf({ session }: Caller): WebSession {
  if (session === undefined) throw new Error("the route was called without a session");
  return session;
}

/** Deletes the sessions that ended at least a day ago. */
export function sweepSessions({ db, retention_clock, settings }: Plane): Promise<number> {
  const then = new Date(retention_clock.now().getTime() - KNOWN_AFTER_END_MS);
  const before = { expired: then, idle: idleSince(then, settings.limits) };
  return deleteIsolated(isOutage, (limit, offset) => deleteEndedSessions(db, before, limit, offset));
}
