import { randomBytes } from "node:crypto";
import { ID_PREFIXES, SECRET_PREFIXES } from "@roamfleet/protocol";
import { type BodyOf, type EnrollmentKey, type NewEnrollmentKey, routes, type Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { type Caller, mayInWholeOrg } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, forbidden, found, printable } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { Answer, created, serve } from "../../kernel/serve.ts";
import { wireTime } from "../../kernel/time.ts";
import { authorityOf } from "../access/index.ts";
import { announce } from "../events/index.ts";
import { requireFleet } from "../fleets/index.ts";
import { lockRobot } from "../robots/index.ts";
import { requireSite } from "../sites/index.ts";
import { Enroller, keyHash } from "./enroll.ts";
import { findKey, insertKey, type KeyRow, listKeys, type NewKey, revokeKey, revokeReplacements, statusOf } from "./store.ts";

const SECRET_BYTES = 32;
const HOUR_MS = 3_600_000;
const MAX_USES_DEFAULT = 100;
const EXPIRES_IN_HOURS_DEFAULT = 24;

export function enrollmentRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.listEnrollmentKeys, async (_, { query, caller, db }) => {
    const { org_id } = caller;
    if (query.site_id !== undefined) await requireSite(db, org_id, query.site_id);
    if (query.fleet_id !== undefined) await requireFleet(db, org_id, query.fleet_id);
    const now = plane.clock.now();
    const wire = (key: KeyRow): EnrollmentKey => toWire(key, now);
    return readPage(query, [routes.listEnrollmentKeys.name, org_id], (window) => listKeys(db, caller, query, now, window), wire);
  });

  serve(http, plane, routes.createEnrollmentKey, async (_, { body, caller, db }) =>
    created(routes.createEnrollmentKey.path, { data: await createKey(plane, db, caller, body) }),
  );

  serve(http, plane, routes.replaceRobot, async (_, { params, caller, db }) =>
    created(routes.createEnrollmentKey.path, { data: await createReplacementKey(plane, db, caller, params.id) }),
  );

  serve(http, plane, routes.getEnrollmentKey, async (_, { params, caller, db }) => {
    const key = found(await findKey(db, caller.org_id, params.id), "enrollment key", params.id);
    return { data: toWire(key, plane.clock.now()) };
  });

  serve(http, plane, routes.revokeEnrollmentKey, async (_, { params, caller, db }) => {
    const now = plane.clock.now();
    const key = found(await revokeKey(db, caller.org_id, params.id, now), "enrollment key", params.id);
    if (key.revoked_at?.getTime() === now.getTime())
      announce(db, plane, caller.org_id, { kind: "enrollment_key", id: key.id, change: "updated", fleet_id: key.fleet_id });
    return { data: toWire(key, now) };
  });

  const enroller = new Enroller(plane);
  serve(http, plane, routes.enrollRobot, async (_, { body, ip }) => {
    const { is_new, data } = await enroller.enroll(body, ip);
    return is_new ? new Answer(201, { data }, { location: `/api/robots/${data.robot_id}` }) : { data };
  });
}

async function createKey(plane: Plane, db: Db, caller: Caller, body: BodyOf<Routes["createEnrollmentKey"]>): Promise<NewEnrollmentKey> {
  const { site_id, fleet_id, label = null, max_uses = MAX_USES_DEFAULT, expires_in_hours = EXPIRES_IN_HOURS_DEFAULT } = body;
  const { org_id } = caller;
  const is_admin = mayInWholeOrg(caller, "admin");
  const { trusted = is_admin } = body;
  if (trusted && !is_admin)
    throw forbidden("field trusted: only an admin of the whole org may create a key whose robots get secrets without approval");
  return await db.transaction(async (tx) => {
    await requireSite(tx, org_id, site_id);
    const fleet = await requireFleet(tx, org_id, fleet_id);
    if (fleet.site_id !== site_id) throw badRequest(`fleet_id: fleet ${fleet_id} is not at site ${site_id}`);
    return await issueKey(plane, tx, caller, { label, site_id, fleet_id, robot_id: null, trusted, max_uses }, expires_in_hours);
  });
}

/** Creates the key with which a new computer enrolls as this robot. Revokes earlier unused keys for this robot. */
const createReplacementKey = (plane: Plane, db: Db, caller: Caller, robot_id: string): Promise<NewEnrollmentKey> =>
  db.transaction(async (tx) => {
    const { org_id } = caller;
    const { decommissioned, name, site_id, fleet_id } = found(await lockRobot(tx, org_id, robot_id), "robot", robot_id);
    if (decommissioned) throw conflict(`robot ${robot_id} is decommissioned: enroll its new computer as a new robot`);
    for (const { id } of await revokeReplacements(tx, org_id, robot_id, plane.clock.now()))
      announce(tx, plane, org_id, { kind: "enrollment_key", id, change: "updated", robot_id });
    const label = `replacement computer of ${printable(name)}`;
    const terms = { label, site_id, fleet_id, robot_id, trusted: mayInWholeOrg(caller, "admin"), max_uses: 1 };
    return await issueKey(plane, tx, caller, terms, EXPIRES_IN_HOURS_DEFAULT);
  });

type KeyTerms = Pick<NewKey, "label" | "site_id" | "fleet_id" | "robot_id" | "trusted" | "max_uses">;

/**
 * Inserts a key. Only its hash is stored, so no later response can contain the key itself. If `expires_in_hours` is 0, the key never
 * expires.
 */
async function issueKey(plane: Plane, tx: Db, caller: Caller, terms: KeyTerms, expires_in_hours: number): Promise<NewEnrollmentKey> {
  const { org_id, actor } = caller;
  const { fleet_id, robot_id } = terms;
  const at = plane.clock.now();
  const secret = SECRET_PREFIXES.enrollment_key + randomBytes(SECRET_BYTES).toString("hex");
  const key = await insertKey(tx, {
    ...terms,
    org_id,
    id: plane.id(ID_PREFIXES.enrollment_key),
    hash: keyHash(secret),
    expires_at: expires_in_hours === 0 ? null : new Date(at.getTime() + expires_in_hours * HOUR_MS),
    created_by: actor,
    authority: authorityOf(caller),
    at,
  });
  const of_robot = robot_id === null ? {} : { robot_id };
  announce(tx, plane, org_id, { kind: "enrollment_key", id: key.id, change: "created", ...of_robot, fleet_id });
  return { ...toWire(key, at), key: secret };
}

const toWire = (key: KeyRow, now: Date): EnrollmentKey => ({
  id: key.id,
  label: key.label,
  site_id: key.site_id,
  fleet_id: key.fleet_id,
  robot_id: key.robot_id,
  max_uses: key.max_uses,
  uses: key.uses,
  trusted: key.trusted,
  expires_at: wireTime(key.expires_at),
  status: statusOf(key, now),
  revoked_at: wireTime(key.revoked_at),
  created_by: key.created_by,
  created_at: wireTime(key.created_at),
  updated_at: wireTime(key.updated_at),
});

export { revokeEveryKey, revokeKeysOf } from "./store.ts";
