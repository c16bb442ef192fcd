import type { Health } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { Together } from "../../kernel/together.ts";
import type { Session } from "../../link/index.ts";
import { announce } from "../events/index.ts";
import { notePoint } from "./history.ts";
import { type Kept, type NewSnapshot, putSnapshots } from "./store.ts";
import { verdictOf } from "./verdict.ts";

/** Most snapshots in one statement, and concurrent statements, each for a different org. */
const BATCH_SNAPSHOTS_MAX = 200;
const BATCHES_AT_ONCE = 2;

const intakes = new WeakMap<Plane["link"], Together<NewSnapshot, Kept | undefined>>();

/** Thousands of robots send snapshots every few seconds: those that arrive during a write are written in one batch. */
function intakeOf({ link, db, db_errors, clock }: Plane): Together<NewSnapshot, Kept | undefined> {
  const known = intakes.get(link);
  if (known !== undefined) return known;
  const made = new Together<NewSnapshot, Kept | undefined>({
    items_max: BATCH_SNAPSHOTS_MAX,
    at_once: BATCHES_AT_ONCE,
    nameOf: ({ robot_id }) => robot_id,
    concernsAll: (error) => db_errors.isOutage(error),
    work: async (org_id, snapshots) => {
      const kept = new Map((await putSnapshots(db.forOrg(org_id), org_id, snapshots, clock.now())).map((one) => [one.robot_id, one]));
      return snapshots.map(({ robot_id }) => kept.get(robot_id));
    },
  });
  intakes.set(link, made);
  return made;
}

/** Stores a robot's snapshot. It is not acknowledged, because the next snapshot replaces a lost one. */
export async function ingestHealth(plane: Plane, { org_id, robot_id }: Session, { snapshot }: Health): Promise<void> {
  const now = plane.clock.now();
  const verdict = verdictOf(snapshot);
  const before = await intakeOf(plane).ask(org_id, { robot_id, snapshot: { ...snapshot, at: sane(snapshot.at, now) }, verdict });
  if (before === undefined) return;
  notePoint(plane, org_id, robot_id, snapshot, now);
  const { state, failing } = verdict;
  // Publish only changes: robots send snapshots every few seconds.
  if (state !== before.state_before || failing.length !== before.failing_before)
    announce(plane.db, plane, org_id, { kind: "robot", id: robot_id, change: "health", status: state });
}

/** Returns the robot's time in ISO format, or the time of receipt if it is not a valid time. */
function sane(at: string, now: Date): string {
  const time = new Date(at);
  return Number.isNaN(time.getTime()) ? now.toISOString() : time.toISOString();
}
