import { AGENT_APP } from "@roamfleet/protocol";
import type { Db, SystemDb } from "../../../kernel/db.ts";
import { sql, type Statement } from "../../../kernel/sql.ts";
import { SYSTEM } from "../../../kernel/caller.ts";
import { announce } from "../../events/index.ts";
import { Postponed, processEach, withDeployment } from "../reconciler.ts";
import { listAdvancing } from "../store/claim.ts";
import { countMembers, expiryDays, findAgentArch, selectMembers, type Membership, patchDeployment } from "../store/deployments.ts";
import { isLimited, wakeSlots } from "../dispatch/slots.ts";
import { ALL_NAMESPACES, type DeploymentRow, type TargetRow } from "../store/rows.ts";
import { countsOf } from "../state.ts";
import { insertTargets } from "../store/targets.ts";
import { deploymentChange } from "../messages.ts";
import { type CreateContext, endIfOver, HINT_DISPATCH, HINT_ROLLOUT, moveDeployment } from "../transition.ts";
import { advanceRollout, assignRobots } from "../rollout/advance.ts";
import { groupSourceMembers, selectSourceMembers, type Source, sourceIn } from "../store/rollback.ts";
import { deleteSelected, selectStored, storeSelected } from "../store/selection.ts";
import type { Rollout } from "@roamfleet/protocol/routes";
import { parseTime } from "../../../kernel/time.ts";

/**
 * Targets per transaction. Such a transaction takes 12 ms of CPU, and neither this nor its locks delay other requests. 100,000 targets take
 * 50 transactions.
 */
const CHUNK_TARGETS = 2_000;
const DEPLOYMENTS_PER_RUN = 20;

/**
 * Creates a target for each robot of a deployment. Writes the first chunk in the caller's transaction, so a small fleet is complete
 * immediately. A background loop writes the other chunks from the fleet's current members, and resumes after a crash from the stored
 * cursor.
 */
export async function beginFanOut(tx: Db, engine: CreateContext, deployment: DeploymentRow): Promise<DeploymentRow> {
  const now = engine.clock.now();
  const expires_at = await expiresAt(tx, engine, deployment.org_id, deployment.rollout, now);
  const count_total = await fixMembersOf(tx, deployment);
  return continueFanOut(tx, engine, await patchDeployment(tx, deployment, { fan_out_at: now, expires_at, count_total }));
}

async function continueFanOut(tx: Db, engine: CreateContext, deployment: DeploymentRow): Promise<DeploymentRow> {
  if (deployment.wave_to_assign !== null) return continueAssignment(tx, engine, deployment);
  const { org_id, id } = deployment;
  const { status, wave, waiting_for } = startOf(deployment);
  const now = engine.clock.now();
  const cursor = deployment.fan_out_cursor ?? "";
  const { total, ...counts } = countsOf(deployment);
  const { robots, written, last_robot_id } = await insertTargets(
    tx,
    {
      org_id,
      deployment_id: id,
      kind: deployment.kind,
      status,
      wave,
      waiting_for,
      subject: subjectOf(deployment),
      id: engine.id("tgt"),
      members: await selectMembersOf(tx, deployment, { after: cursor, done: sumOf(counts) }),
    },
    now,
  );
  // The next chunk would begin at the same robots again, for ever.
  if (isSelection(deployment) && robots > 0 && written === 0)
    throw new Error(`the counts of ${deployment.id} are not those of its targets`);
  const last = robots < CHUNK_TARGETS;
  const in_waves = deployment.rollout.waves !== undefined;
  counts[status] += written;
  const row = await patchDeployment(tx, deployment, {
    // A server of the previous version would complete the fan-out of a selection that has a cursor.
    fan_out_cursor: isSelection(deployment) ? null : (last_robot_id ?? cursor),
    fan_out_done_at: last && !in_waves ? now : null,
    wave_to_assign: last && in_waves ? 0 : null,
    step_at: last && isLimited(deployment) ? now : null,
    count_pending: counts.pending,
    count_queued: counts.queued,
    // After the last chunk, set the total to the number of targets that were written.
    count_total: last ? sumOf(counts) : total,
  });
  // Publish one change for the chunk, not one per target: clients that show targets reload the list.
  announce(tx, engine, org_id, deploymentChange(row, "targets"));
  if (!last) {
    tx.afterCommit(() => engine.bus.publish(HINT_ROLLOUT, null));
    return row;
  }
  if (isSelection(deployment)) await deleteSelected(tx, deployment);
  if (row.count_total === 0)
    return moveDeployment(tx, engine, row, "cancelled", row.cancel_requested_at === null ? "no_targets" : "user_cancelled", SYSTEM);
  if (in_waves) return continueAssignment(tx, engine, row);
  if (isLimited(deployment)) await wakeSlots(tx, row);
  tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
  return endIfOver(tx, engine, row);
}

const sumOf = (counts: Readonly<Record<string, number>>): number => Object.values(counts).reduce((sum, count) => sum + count, 0);

/**
 * Returns the initial state of a target. In a deployment with waves, a target is in the last, implicit wave until it is assigned to its
 * own.
 */
function startOf(deployment: DeploymentRow): { status: "pending" | "queued"; wave: number; waiting_for: "slot" | null } {
  const { waves } = deployment.rollout;
  if (waves !== undefined) return { status: "pending", wave: waves.length, waiting_for: null };
  return { status: "queued", wave: 0, waiting_for: isLimited(deployment) ? "slot" : null };
}

/** The app or namespace that the deployment's targets concern. */
const subjectOf = ({ kind, app, namespace }: DeploymentRow): string =>
  kind === "release" ? (app ?? "main") : (namespace ?? ALL_NAMESPACES);

/** Builds the row of the only target of a deployment to one robot. The target is queued. */
export const targetOf = (engine: Pick<CreateContext, "id">, deployment: DeploymentRow, now: Date): TargetRow => ({
  org_id: deployment.org_id,
  deployment_id: deployment.id,
  id: engine.id("tgt"),
  kind: deployment.kind,
  robot_id: deployment.robot_id ?? "",
  subject: subjectOf(deployment),
  release_id: deployment.release_id,
  wave: 0,
  status: "queued",
  reason: null,
  attempt: 0,
  waiting_for: null,
  progress: null,
  previous_release_id: null,
  dispatch_generation: null,
  deadline_at: null,
  not_before_at: null,
  reverting: false,
  created_at: now,
  updated_at: now,
});

async function continueAssignment(tx: Db, engine: CreateContext, deployment: DeploymentRow): Promise<DeploymentRow> {
  const row = await assignRobots(tx, engine, deployment);
  if (row.fan_out_done_at !== null) return endIfOver(tx, engine, row);
  tx.afterCommit(() => engine.bus.publish(HINT_ROLLOUT, null));
  return row;
}

/**
 * Background: writes the next chunk of each unfinished fan-out, and queues targets as soon as their wave, its soak time and its gate allow.
 * Returns true if there may be more.
 */
export async function advanceDeployments(db: SystemDb, engine: CreateContext, postponed = new Postponed()): Promise<boolean> {
  const now = engine.clock.now();
  const due = await listAdvancing(db, now, DEPLOYMENTS_PER_RUN, postponed.ids(now));
  let more = due.length === DEPLOYMENTS_PER_RUN;
  await processEach(engine, postponed, due, ({ org_id, id }) =>
    withDeployment(db, org_id, id, async (tx, row) => {
      const after = row.fan_out_done_at === null ? await continueFanOut(tx, engine, row) : await advanceRollout(tx, engine, row);
      if (after.finished_at === null) more ||= after.fan_out_done_at === null || (after.step_at !== null && after.step_at <= now);
    }),
  );
  return more;
}

type Of = Pick<
  DeploymentRow,
  "org_id" | "id" | "target_selector" | "robot_id" | "fleet_id" | "release_id" | "app" | "retry_of" | "rollback_of" | "order_number"
>;

/**
 * Returns the statement that selects the robots of the next chunk, ordered by id, with the release that each gets: null for a config or the
 * removal of an app. `after` is the last robot of the chunk before, and `done` the number of robots that have a target. The robots of a
 * deployment are the fleet members that joined before it started, the robots that it has selected, its single robot or, for a retry or
 * rollback, robots of the ended deployment.
 */
async function selectMembersOf(tx: Db, deployment: Of, { after, done }: { after: string; done: number }): Promise<Statement<unknown>> {
  const { org_id, robot_id, release_id } = deployment;
  const source = sourceOf(deployment);
  if (source !== undefined) return selectSourceMembers(org_id, source, after, CHUNK_TARGETS);
  if (isSelection(deployment)) return selectStored(deployment, release_id, done, CHUNK_TARGETS);
  const membership = await membershipOf(tx, deployment);
  if (membership !== undefined) return selectMembers(org_id, membership, release_id, after, CHUNK_TARGETS);
  return sql`select ${robot_id}::text as robot_id, ${release_id}::text as release_id where ${after}::text = ''`;
}

/** Returns the criteria that select the robots of the deployment's fleet. Undefined if the deployment has no fleet. */
async function membershipOf(tx: Db, { org_id, fleet_id, release_id, app, order_number }: Of): Promise<Membership | undefined> {
  if (fleet_id === null) return undefined;
  return { fleet_id, before: order_number, arch: await archOf(tx, { org_id, app, release_id }) };
}

const archOf = async (tx: Db, { org_id, app, release_id }: Pick<Of, "org_id" | "app" | "release_id">): Promise<string | null> =>
  app === AGENT_APP ? findAgentArch(tx, org_id, release_id) : null;

/** Whether the robots of the deployment match its selector, and are not those of an ended deployment. */
const isSelection = (deployment: Pick<DeploymentRow, "target_selector" | "retry_of" | "rollback_of">): boolean =>
  deployment.target_selector !== null && deployment.retry_of === null && deployment.rollback_of === null;

/** Returns the number of robots that `selectMembersOf` selects. First stores them if the deployment selects its robots. */
async function fixMembersOf(tx: Db, deployment: Of): Promise<number> {
  const source = sourceOf(deployment);
  if (source !== undefined) return (await groupSourceMembers(tx, deployment.org_id, source)).reduce((sum, { robots }) => sum + robots, 0);
  if (deployment.target_selector !== null) return storeSelected(tx, deployment, deployment.target_selector, await archOf(tx, deployment));
  const membership = await membershipOf(tx, deployment);
  return membership === undefined ? 1 : (await countMembers(tx, deployment.org_id, membership)).count;
}

/**
 * Returns the ended deployment that this one retries or rolls back, and the criteria that select its targets. Undefined for any other
 * deployment.
 */
export function sourceOf(deployment: Pick<DeploymentRow, "retry_of" | "rollback_of" | "fleet_id" | "target_selector">): Source | undefined {
  const { retry_of, rollback_of } = deployment;
  if (retry_of !== null) return sourceIn(deployment, retry_of, "retry");
  return rollback_of === null ? undefined : sourceIn(deployment, rollback_of, "rollback");
}

const HOUR_MS = 3_600_000;
const HOURS_PER_DAY = 24;

/**
 * Returns the expiry time of a deployment that begins at `from`. This is the time in its policy, or otherwise the end of the org's or the
 * server's default period.
 */
export async function expiresAt(
  db: Db,
  engine: Pick<CreateContext, "settings">,
  org_id: string,
  rollout: Rollout,
  from: Date,
): Promise<Date> {
  if (rollout.expires_at !== undefined) return parseTime(rollout.expires_at);
  const days = await expiryDays(db, org_id);
  const hours = days === null ? engine.settings.limits.deployment_expiry_hours : days * HOURS_PER_DAY;
  return new Date(from.getTime() + hours * HOUR_MS);
}
