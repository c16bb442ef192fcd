import { type IdSource, idSource } from "@robofleet/clock";
import { isTerminal } from "@robofleet/protocol";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import { eachApart } from "./each-apart.ts";
import {
  countMembers,
  expiryDays,
  listMembers,
  listUnfinishedFanOuts,
  lockDeployments,
  setFanOut,
  setFanOutProgress,
} from "./store/deployments.ts";
import { ALL_NAMESPACES, type DeploymentRow } from "./store/rows.ts";
import { insertTargets } from "./store/targets.ts";
import { type CreateContext, endIfOver, HINT_DISPATCH, moveDeployment } from "./transition.ts";

/** Targets of one transaction: few enough that nobody waits for its locks, many enough that 100,000 take 20. */
const CHUNK_TARGETS = 5_000;
export const HINT_FAN_OUT = "rf.deployments.fan_out";
const HOUR_MS = 3_600_000;
const HOURS_PER_DAY = 24;

/**
 * Resolves whom the deployment is for. The first chunk is written in the caller's transaction, so a small fleet is
 * complete at once; the rest follows in the background, from the members as of now, and goes on after a crash where it was.
 */
export async function beginFanOut(tx: Db, engine: CreateContext, deployment: DeploymentRow): Promise<DeploymentRow> {
  const now = engine.clock.now();
  const days = await expiryDays(tx, deployment.org_id);
  const hours = days === null ? engine.settings.limits.deployment_expiry_hours : days * HOURS_PER_DAY;
  const expires_at = new Date(now.getTime() + hours * HOUR_MS);
  const total = deployment.fleet_id === null ? 1 : (await countMembers(tx, deployment.org_id, deployment.fleet_id, now)).count;
  await setFanOut(tx, deployment.org_id, deployment.id, { fan_out_at: now, expires_at, count_total: total });
  return continueFanOut(tx, engine, { ...deployment, fan_out_at: now, expires_at, count_total: total });
}

async function continueFanOut(tx: Db, engine: CreateContext, deployment: DeploymentRow): Promise<DeploymentRow> {
  const { org_id, id, fleet_id, robot_id } = deployment;
  const now = engine.clock.now();
  const cursor = deployment.fan_out_cursor ?? "";
  const robots =
    fleet_id === null
      ? [{ id: robot_id ?? "" }]
      : await listMembers(tx, org_id, fleet_id, deployment.fan_out_at ?? now, cursor, CHUNK_TARGETS);
  const last = fleet_id === null || robots.length < CHUNK_TARGETS;
  const targetId = deployment.fan_out_cursor === null ? engine.id : laterChunkIds(engine, deployment.fan_out_at ?? now);
  const written =
    robots.length === 0
      ? 0
      : await insertTargets(
          tx,
          {
            org_id,
            deployment_id: id,
            kind: deployment.kind,
            subject: deployment.kind === "release" ? (deployment.app ?? "main") : (deployment.namespace ?? ALL_NAMESPACES),
            release_id: deployment.release_id,
            robots: robots.map((robot) => ({ id: targetId("tgt"), robot_id: robot.id })),
          },
          now,
        );
  const row = await setFanOutProgress(tx, org_id, id, { cursor: robots.at(-1)?.id ?? cursor, written, done_at: last ? now : null });
  if (!last) {
    tx.afterCommit(() => engine.bus.publish(HINT_FAN_OUT, null));
    return row;
  }
  if (row.count_total === 0)
    return moveDeployment(tx, engine, row, "cancelled", row.cancel_requested_at === null ? "no_targets" : "user_cancelled", SYSTEM);
  tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
  return endIfOver(tx, engine, row);
}

/** Ids tell which of two targets is newer, so all of a deployment's are of the moment at which its robots were resolved. */
const laterChunkIds = ({ clock }: CreateContext, fan_out_at: Date): IdSource =>
  idSource({ now: () => fan_out_at, randomBytes: (count) => clock.randomBytes(count) });

/** Background: writes the next chunk of every fan-out under way. Answers true while there is more. */
export async function continueFanOuts(db: SystemDb, engine: CreateContext): Promise<boolean> {
  const open = await listUnfinishedFanOuts(db, 10);
  await eachApart(open, ({ org_id, id }) =>
    db.forOrg(org_id).transaction(async (tx) => {
      const [row] = await lockDeployments(tx, org_id, [id]);
      if (row === undefined || row.fan_out_done_at !== null || isTerminal(row.status)) return;
      await continueFanOut(tx, engine, row);
    }),
  );
  return open.length > 0;
}
