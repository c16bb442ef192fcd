import { ID_PREFIXES } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import type { Db } from "../../kernel/db.ts";
import { isolateEach } from "../../kernel/isolate-failures.ts";
import { DEFAULT_RULES } from "./defaults.ts";
import { evaluateOrg } from "./evaluate.ts";
import { insertDefaults, listDueOrgs, listUnknownOrgs, planEvaluation } from "./store-rules.ts";

export { channelRoutes, dropDeliveries, startSender } from "./delivery/index.ts";
export { dropIncidents } from "./retention.ts";
export { alertRoutes } from "./routes.ts";
export { incidentNames, incidentRow, nameColumns } from "./store-shown.ts";

/** Shorter than the interval of an org's evaluations, because another node may have evaluated an org a moment later. */
const LOOK_EVERY_MS = 5_000;
/** After a failed evaluation of an org, the next one waits for this time, so that an org whose evaluation takes too long delays no other. */
const RETRY_MS = 60_000;
/** Orgs of one pass. If there are more, the next pass follows immediately. */
const ORGS_AT_ONCE = 500;

/** Creates the default rules of an org, once. */
export async function createDefaultRules(db: Db, plane: Pick<Plane, "id" | "clock">, org_id: string): Promise<void> {
  const rules = DEFAULT_RULES.map(() => ({ id: plane.id(ID_PREFIXES.alert_rule) }));
  await insertDefaults(db, org_id, rules, plane.clock.now());
}

/** Starts the evaluation of alert rules. On several nodes, each org is evaluated by the node that claims it first. */
export const startAlerts = (plane: Plane): { stop(): Promise<void> } =>
  background(plane, "alert rules", LOOK_EVERY_MS, () => evaluate(plane));

async function evaluate(plane: Plane): Promise<boolean> {
  const { db, db_errors, clock, log } = plane;
  for (const org_id of await listUnknownOrgs(db, ORGS_AT_ONCE)) await createDefaultRules(db.forOrg(org_id), plane, org_id);
  const due = await listDueOrgs(db, clock.now(), ORGS_AT_ONCE);
  let has_more = due.length === ORGS_AT_ONCE;
  // A statement that exceeds its time limit has this org's data as its cause, so the other orgs continue.
  const affectsAll = (error: unknown): boolean => db_errors.isConnectionLost(error) || db_errors.isDiskFull(error);
  const failures = await isolateEach(due, affectsAll, async (org_id) => {
    if (await evaluateOrg(db.forOrg(org_id), plane, org_id)) has_more = true;
  });
  if (failures === undefined) return has_more;
  log.error({ err: failures.error, orgs: failures.failed.length }, "alert rules could not be evaluated");
  const retry_at = new Date(clock.now().getTime() + RETRY_MS);
  for (const org_id of failures.failed) await planEvaluation(db.forOrg(org_id), org_id, retry_at);
  return has_more;
}
