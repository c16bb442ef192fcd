import type { Health, HealthBody } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import { KeyedBatcher } from "../../kernel/keyed-batcher.ts";
import type { Session } from "../../link/index.ts";
import { announce } from "../events/index.ts";
import { addPoint } from "./history.ts";
import { type Kept, type NewSnapshot, putSnapshots, type Verdict } from "./store.ts";

/** Maximum snapshots in one statement. */
const BATCH_SNAPSHOTS_MAX = 200;
/** Maximum concurrent statements, each for a different org. */
const BATCHES_AT_ONCE = 2;

/**
 * Batches the writes: snapshots that arrive during a write are stored by the next one. Thousands of robots send a snapshot every few
 * seconds.
 */
const batcherOf = planeState(
  ({ db, db_errors, clock }: Plane) =>
    new KeyedBatcher<NewSnapshot, Kept | undefined>({
      items_max: BATCH_SNAPSHOTS_MAX,
      concurrency_max: BATCHES_AT_ONCE,
      uniqueBy: ({ robot_id }) => robot_id,
      affectsAll: (error) => db_errors.isOutage(error),
      work: async (org_id, snapshots) => {
        const kept = new Map((await putSnapshots(db.forOrg(org_id), org_id, snapshots, clock.now())).map((one) => [one.robot_id, one]));
        return snapshots.map(({ robot_id }) => kept.get(robot_id));
      },
    }),
);

/** Stores a robot's snapshot. Sends no acknowledgement: if a snapshot is lost, the next one replaces it. */
export async function ingestHealth(plane: Plane, { org_id, robot_id }: Session, { snapshot, ros_unchanged }: Health): Promise<void> {
  const now = plane.clock.now();
  const verdict = verdictOf(snapshot);
  const before = await batcherOf(plane).add(org_id, {
    robot_id,
    snapshot: { ...snapshot, at: sane(snapshot.at, now) },
    keeps_ros: ros_unchanged === true,
    verdict,
  });
  if (before === undefined) return;
  addPoint(plane, org_id, robot_id, snapshot, now);
  const { state, failing } = verdict;
  // Publish only changes of the state, because robots send snapshots every few seconds.
  if (state !== before.state_before || failing.length !== before.failing_before)
    announce(plane.db, plane, org_id, { kind: "robot", id: robot_id, change: "health", status: state });
}

/** Returns the robot's time of the snapshot in ISO format. If it is not a valid time, returns the time of receipt. */
function sane(at: string, now: Date): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? now.toISOString() : time.toISOString();
}

const FAILING_SHOWN = 20;

/** Returns the verdict on a snapshot. A check with the status `error` is failing; a check with a warning is not. */
function verdictOf({ checks, status }: Pick<HealthBody, "checks" | "status">): Verdict {
  const failed = checks.filter((check) => check.status === "error");
  if (failed.length === 0)
    return status === "error" ? { state: "failing", failing: ["the robot reports an error"] } : { state: "ok", failing: [] };
  return {
    state: "failing",
    failing: failed.slice(0, FAILING_SHOWN).map(({ name, message }) => (message === "" ? name : `${name}: ${message}`)),
  };
}
