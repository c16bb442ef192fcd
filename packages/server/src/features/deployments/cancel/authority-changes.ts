import { isTerminal } from "@roamfleet/protocol";
import { SYSTEM } from "../../../kernel/caller.ts";
import { isConnectionLost } from "../../../engines/db/index.ts";
import type { Db, SystemDb } from "../../../kernel/db.ts";
import { isolateEach } from "../../../kernel/isolate-failures.ts";
import { sql } from "../../../kernel/sql.ts";
import { readAuthorities } from "../../access/index.ts";
import { endWith } from "./end-targets.ts";
import { Postponed, processEach } from "../reconciler.ts";
import { deleteAuthorityChange, findTargetPlace, listAuthorityChanges, listOpenOf, lockDenied } from "../store/authority-changes.ts";
import { deleteDue, lockDeployments } from "../store/deployments.ts";
import { listUnwantedFollows } from "../store/follow.ts";
import type { DeploymentRow } from "../store/rows.ts";
import type { TargetChange } from "../store/targets.ts";
import { type Engine, moveDeployment } from "../transition.ts";

const CHANGES_PER_TURN = 50;
/** Maximum targets per transaction. */
const CHUNK_TARGETS = 2_000;

/** Background: ends pending targets of robots to which the deployment may no longer deploy. Returns true if there may be more. */
export async function recheckAuthorities(db: SystemDb, engine: Engine, postponed = new Postponed()): Promise<boolean> {
  const changes = await listAuthorityChanges(db, CHANGES_PER_TURN, postponed.ids(engine.clock.now()));
  const items = changes.map((change) => ({ ...change, id: change.subject_id }));
  await processEach(engine, postponed, items, async ({ org_id, kind, subject_id, version }) => {
    const own = db.forOrg(org_id);
    const open = (await listOpenOf(own, org_id, kind, subject_id)).map(({ id }) => id);
    const failures = await isolateEach(open, isConnectionLost, async (id) => {
      while (await own.transaction((tx) => endDenied(tx, engine, org_id, id)));
    });
    if (failures !== undefined) throw failures.error;
    await deleteAuthorityChange(own, org_id, kind, subject_id, version);
  });
  return changes.length === CHANGES_PER_TURN;
}

/**
 * Ends one chunk of a deployment's targets of robots to which it may no longer deploy. An automatic deployment may no longer deploy to any
 * robot when its fleet has another release or config, or none. Returns true while there may be more.
 */
async function endDenied(tx: Db, engine: Engine, org_id: string, id: string): Promise<boolean> {
  const [row] = await lockDeployments(tx, org_id, [id]);
  if (row === undefined || isTerminal(row.status)) return false;
  if (row.status === "scheduled") {
    await endScheduledIfDenied(tx, engine, row);
    return false;
  }
  const authorities = await readAuthorities(tx, org_id, [row]);
  const [unwanted] = await listUnwantedFollows(tx, org_id, [id]);
  const denied = unwanted === undefined ? authorities.deniedPlaces(row, "r.site_id", "r.fleet_id") : sql``;
  if (denied === undefined) return false;
  const reason = authorities.denialAt(row, undefined) ?? unwanted?.reason ?? "scope_lost";
  const targets = await lockDenied(tx, org_id, id, denied, CHUNK_TARGETS);
  const ends = targets.map((target): TargetChange => ({ target, to: "cancelled", reason }));
  await endWith(tx, engine, row, ends, SYSTEM);
  return targets.length === CHUNK_TARGETS;
}

/** Ends a scheduled deployment whose creator may no longer start it; the caller has locked its row. Returns whether it was ended. */
export async function endScheduledIfDenied(tx: Db, engine: Engine, row: DeploymentRow): Promise<boolean> {
  const authorities = await readAuthorities(tx, row.org_id, [row]);
  const reason = authorities.denialAt(row, await findTargetPlace(tx, row.org_id, row));
  if (reason === null) return false;
  await deleteDue(tx, row.org_id, row.id);
  await moveDeployment(tx, engine, row, "cancelled", reason, SYSTEM);
  return true;
}
