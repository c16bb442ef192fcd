import type { Plane } from "../../context.ts";
import { type Caller, SYSTEM } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, notFound } from "../../kernel/fault.ts";
import type { Session } from "../../link/index.ts";
import { announce } from "../events/index.ts";
import { countTimeline, recordTimeline, recordTimelineMany } from "../timeline/index.ts";
import { holdRobot, lockRobot, releaseRobot } from "./store.ts";

const DUPLICATE = "robot.duplicate_identity";
/** So often within the window, and the robot is held until somebody decides which machine it is. */
const DUPLICATES_MAX = 3;
const WINDOW_MS = 600_000;
/** Each time the timeline has one entry for either link. */
const ENTRIES_EACH = 2;

/**
 * Whether a run of the agent is one of two that are alive. A run that is new proves nothing: a robot that was switched off
 * and on again comes while its old link still seems open. A run that comes back after another one had taken its place does,
 * since a run that has ended never comes back.
 */
export const isDuplicate = (runs_before: readonly string[], run_id: string): boolean => runs_before.indexOf(run_id) > 0;

interface Duplicate {
  session: Session;
  /** The link that this one ended, if it was still open. */
  older: Session | undefined;
  older_run: string | undefined;
}

/** Tells of both machines in the timeline; the third time in ten minutes the robot is held. */
export async function tellDuplicate(
  tx: Db,
  plane: Pick<Plane, "id" | "clock" | "bus">,
  { session, older, older_run }: Duplicate,
): Promise<{ held: boolean }> {
  const { org_id, robot_id } = session;
  const now = plane.clock.now();
  const common = { org_id, robot_id, actor: SYSTEM };
  await recordTimelineMany(tx, plane, [
    {
      ...common,
      kind: DUPLICATE,
      summary: "The link was ended because a second machine connected with this robot's identity",
      data: { ...(older === undefined ? { run_id: older_run ?? null } : dataOf(older)), kept: false },
    },
    {
      ...common,
      kind: DUPLICATE,
      summary: "A second machine connected with this robot's identity and took over",
      data: { ...dataOf(session), kept: true },
    },
  ]);
  const entries = await countTimeline(tx, org_id, robot_id, DUPLICATE, new Date(now.getTime() - WINDOW_MS));
  if (entries < DUPLICATES_MAX * ENTRIES_EACH) return { held: false };
  await holdRobot(tx, org_id, robot_id, now);
  announce(tx, plane, org_id, { kind: "robot", id: robot_id, change: "updated", status: "held" });
  await recordTimeline(tx, plane, {
    ...common,
    kind: "robot.held",
    summary: `Several machines have this robot's identity, as was seen ${DUPLICATES_MAX} times in ten minutes: none is let in until an operator decides`,
  });
  return { held: true };
}

const dataOf = ({ session_id, ip, hello }: Session) => ({ session_id, ip, boot_id: hello.boot_id, run_id: hello.run_id });

/** Lets a robot in again that was held. Not held: no change. */
export const releaseHold = (plane: Plane, db: Db, { org_id, actor }: Caller, robot_id: string): Promise<void> =>
  db.transaction(async (tx) => {
    const robot = await lockRobot(tx, org_id, robot_id);
    if (robot === undefined) throw notFound("robot", robot_id);
    if (robot.decommissioned) throw conflict(`robot ${robot_id} is decommissioned`);
    if ((await releaseRobot(tx, org_id, robot_id, plane.clock.now())) === 0) return;
    announce(tx, plane, org_id, { kind: "robot", id: robot_id, change: "updated", status: "released" });
    await recordTimeline(tx, plane, { org_id, robot_id, kind: "robot.released", actor, summary: "The robot is let in again" });
  });
