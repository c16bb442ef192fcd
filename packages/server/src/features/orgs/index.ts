import { ID_PREFIXES } from "@roamfleet/protocol";
import { type ApprovedOrg, type BodyOf, type Org, type OwnOrg, type Routes, routes, type Stats } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { isOutage, mapUniqueViolation } from "../../engines/db/index.ts";
import { type Changed, changesBetween } from "../../kernel/audit.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, type Fault, forbidden, found, httpError, printable } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { readPage } from "../../kernel/page.ts";
import { AddressRateLimit } from "../../kernel/rate-limit.ts";
import { deleteIsolated } from "../../kernel/retention.ts";
import { created, serve } from "../../kernel/serve.ts";
import { wireTime, wireTimes } from "../../kernel/time.ts";
import { createDefaultRules } from "../alerts/index.ts";
import { announce } from "../events/index.ts";
import { HINT_SUSPENDED } from "../robots/index.ts";
import { createCredential } from "../tokens/index.ts";
import {
  approveOrg,
  countPending,
  deletePendingOrg,
  deletePendingOrgsBefore,
  findOrg,
  insertOrg,
  listOrgs,
  lockOrg,
  type OrgRow,
  type OrgSettings,
  readStats,
  switchOrg,
  updateOrg,
} from "./store.ts";

/** Maximum pending requests for an org. Anyone can send such requests, so they must not fill the database. */
const PENDING_ORGS_MAX = 1_000;
const RETRY_AFTER_SECONDS = 3_600;
const MINUTES_PER_HOUR = 60;

export function orgRoutes(http: Http, plane: Plane): void {
  serveOwnOrg(http, plane);

  serve(http, plane, routes.listOrgs, (_, { query, db }) =>
    readPage(query, [routes.listOrgs.name], (window) => listOrgs(db, query.status, window), toWire),
  );

  serve(http, plane, routes.createOrg, async (_, { body, db }) =>
    created(routes.createOrg.path, { data: await addOrg(plane, db, body.name, body.email) }),
  );

  serve(http, plane, routes.getAnyOrg, async (_, { params, db }) => ({ data: toWire(await requireOrg(db, params.id)) }));
  serve(http, plane, routes.approveOrg, async (_, { params, db }) => ({ data: await approve(plane, db, params.id) }));
  serve(http, plane, routes.rejectOrg, async (_, { params, db }) => ({ data: await reject(db, params.id) }));
  // Suspending or resuming an org sets its status. Requests, robot connections and the scheduler check this status. Both routes are
  // idempotent.
  serve(http, plane, routes.suspendOrg, async (_, { params, db }) => ({ data: await change(plane, db, params.id, "active", "suspended") }));
  serve(http, plane, routes.resumeOrg, async (_, { params, db }) => ({ data: await change(plane, db, params.id, "suspended", "active") }));
  serve(http, plane, routes.getStats, async (_, { db }) => ({ data: await figures(db) }));
}

/** Serves the routes for requesting an org, and for members of an org. */
function serveOwnOrg(http: Http, plane: Plane): void {
  const request = createOrgRequests(plane);
  serve(http, plane, routes.requestOrg, async (_, { body, db, ip }) => ({ data: await request(db, ip, body) }));
  serve(http, plane, routes.getOrg, async (_, { caller, db }) => ({ data: toOwnWire(await requireOrg(db, caller.org_id)) }));
  serve(http, plane, routes.updateOrg, async (_, { body, caller, db, audit }) => {
    const { before, after } = await changeOwnOrg(plane, db, caller.org_id, body);
    audit.data = changesBetween(before, after, ["name", "settings"]);
    return { data: after };
  });
}

const requireOrg = async (db: Db, id: string): Promise<OrgRow> => found(await findOrg(db, id), "org", id);

const toWire = ({ settings: _, ...org }: OrgRow): Org => wireTimes(org);

const toOwnWire = ({ id, name, status, settings, created_at, updated_at }: OrgRow): OwnOrg => ({
  id,
  name,
  status,
  settings: { deployment_expires_days: settings.deployment_expires_days ?? null },
  created_at: wireTime(created_at),
  updated_at: wireTime(updated_at),
});

/** Creates a pending org with the default alert rules. Throws 409 if the name is taken. */
async function addOrg(plane: Plane, db: Db, name: string, email: string | undefined): Promise<Org> {
  const org = { id: plane.id(ID_PREFIXES.org), name, email: email ?? null, at: plane.clock.now() };
  return await db.transaction(async (tx) => {
    const added = await mapUniqueViolation(insertOrg(tx, org), () => nameConflict(name));
    await createDefaultRules(tx, plane, org.id);
    return toWire(added);
  });
}

const nameConflict = (name: string): Fault => conflict(`an org with the name ${printable(name)} exists already`);

/**
 * Returns a handler for unauthenticated requests for an org. Limits the requests per hour for each address. A limit of 0 refuses all
 * requests.
 */
function createOrgRequests(plane: Plane): (db: Db, ip: string, body: BodyOf<Routes["requestOrg"]>) => Promise<Org> {
  const { org_requests_per_hour: burst } = plane.settings.limits;
  const rate = new AddressRateLimit(plane.clock, "org-requests", { per_minute: burst / MINUTES_PER_HOUR, burst });
  return async (db, ip, { name, email }) => {
    if (burst === 0) throw forbidden("this server does not accept org requests; ask its administrator");
    rate.take(ip);
    if ((await countPending(db)) >= PENDING_ORGS_MAX)
      throw httpError(503, "too many org requests are pending; try again later", { "retry-after": String(RETRY_AFTER_SECONDS) });
    return await addOrg(plane, db, name, email);
  };
}

/** Approves a pending org and creates its first token. Only this response contains the token. Throws 409 if the org is not pending. */
async function approve(plane: Plane, db: Db, id: string): Promise<ApprovedOrg> {
  return await db.transaction(async (tx) => {
    const org = await approveOrg(tx, id, plane.clock.now());
    if (org === undefined) {
      const { status } = await requireOrg(tx, id);
      throw conflict(`org ${id} is ${status}, not pending; its first token was returned when it was approved`);
    }
    const { secret } = await createCredential(tx, plane, { kind: "org", org_id: id, role: "admin", label: "bootstrap" });
    return { ...toWire(org), status: "active", token: secret };
  });
}

/** Deletes a pending org and returns it. Throws 409 if the org is not pending. */
async function reject(db: Db, id: string): Promise<Org> {
  const org = await deletePendingOrg(db, id);
  if (org !== undefined) return toWire(org);
  const { status } = await requireOrg(db, id);
  throw conflict(`org ${id} is ${status}, not pending; suspend it instead`);
}

/** Suspends or resumes an org. Throws 409 if the org is pending. */
async function change(plane: Plane, db: Db, id: string, from: "active" | "suspended", to: "active" | "suspended"): Promise<Org> {
  const org = await switchOrg(db, id, from, to, plane.clock.now());
  if (org !== undefined) {
    announce(db, plane, id, { kind: "org", id, change: "status", status: to });
    if (to === "suspended") db.afterCommit(() => plane.bus.publish(HINT_SUSPENDED, null));
    return toWire(org);
  }
  const { status } = await requireOrg(db, id);
  throw conflict(`org ${id} is ${status}, not active or suspended; approve it first`);
}

/** Changes the org's name and settings that are present in the body. Keeps its other settings. */
const changeOwnOrg = (plane: Plane, db: Db, id: string, body: BodyOf<Routes["updateOrg"]>): Promise<Changed<OwnOrg>> =>
  db.transaction(async (tx) => {
    const org = await lockOrg(tx, id);
    const name = body.name ?? org.name;
    const settings = mergeSettings(org.settings, body.settings);
    const changed = await mapUniqueViolation(updateOrg(tx, id, { name, settings }, plane.clock.now()), () => nameConflict(name));
    announce(tx, plane, id, { kind: "org", id, change: "updated" });
    return { before: toOwnWire(org), after: toOwnWire(changed) };
  });

function mergeSettings(
  settings: OrgSettings,
  { deployment_expires_days: days }: NonNullable<BodyOf<Routes["updateOrg"]>["settings"]> = {},
): OrgSettings {
  if (days === undefined) return settings;
  const { deployment_expires_days: _, ...rest } = settings;
  return days === 0 ? rest : { ...rest, deployment_expires_days: days };
}

async function figures(db: Db): Promise<Stats> {
  const { orgs_pending: pending, orgs_active: active, orgs_suspended: suspended, ...rest } = await readStats(db);
  return {
    orgs: { total: pending + active + suspended, pending, active, suspended },
    robots: { total: rest.robots_total, online: rest.robots_online },
    deployments: { scheduled: rest.deployments_scheduled, running: rest.deployments_running },
    database: { size_bytes: rest.database_bytes },
  };
}

/** Deletes pending orgs that were requested before `before`. */
export async function dropPendingOrgs(db: Db, before: Date): Promise<void> {
  await deleteIsolated(isOutage, (limit, offset) => deletePendingOrgsBefore(db, before, limit, offset));
}

export { listActiveOrgs } from "./store.ts";
