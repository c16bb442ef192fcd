import type { Plane } from "../../context.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import type { Session } from "../../link/index.ts";
import { announce } from "../events/index.ts";
import { countTimeline, recordTimeline, recordTimelineMany } from "../timeline/index.ts";
import { quarantineRobot } from "./store.ts";

const DUPLICATE = "robot.duplicate_identity";
/** After this many duplicates within the window the robot is quarantined until an operator decides which machine it is. */
const DUPLICATES_MAX = 3;
const WINDOW_MS = 600_000;
/** Each duplicate adds one timeline entry per link. */
const ENTRIES_EACH = 2;

/**
 * Whether two live runs of the agent use one identity. A new run proves nothing: after a restart a robot may connect while its old link
 * still seems open. A run that connects again after another one had replaced it is a proof, because a run that has ended never returns.
 */
export const isDuplicate = (runs_before: readonly string[], run_id: string): boolean => runs_before.indexOf(run_id) > 0;

interface Duplicate {
  session: Session;
  /** The link that this one replaced, if it was still open. */
  older: Session | undefined;
  older_run: string | undefined;
}

/** Records both machines in the timeline. At the third duplicate within ten minutes the robot is quarantined. */
export async function recordDuplicate(
  tx: Db,
  plane: Pick<Plane, "id" | "clock" | "bus">,
  { session, older, older_run }: Duplicate,
): Promise<{ quarantined: boolean }> {
  const { org_id, robot_id } = session;
  const now = plane.clock.now();
  const common = { org_id, robot_id, actor: SYSTEM };
  await recordTimelineMany(tx, plane, [
    {
      ...common,
      kind: DUPLICATE,
      summary: "Disconnected: a second machine connected with this robot's identity",
      data: { ...(older === undefined ? { run_id: older_run ?? null } : dataOf(older)), kept: false },
    },
    {
      ...common,
      kind: DUPLICATE,
      summary: "A second machine connected with this robot's identity and replaced the first",
      data: { ...dataOf(session), kept: true },
    },
  ]);
  const entries = await countTimeline(tx, org_id, robot_id, DUPLICATE, new Date(now.getTime() - WINDOW_MS));
  if (entries < DUPLICATES_MAX * ENTRIES_EACH) return { quarantined: false };
  await quarantineRobot(tx, org_id, robot_id, now);
  announce(tx, plane, org_id, { kind: "robot", id: robot_id, change: "updated", status: "held" });
  await recordTimeline(tx, plane, {
    ...common,
    kind: "robot.held",
    summary: `The robot was quarantined: several machines used its identity ${DUPLICATES_MAX} times in ten minutes. An operator must decide`,
  });
  return { quarantined: true };
}

const dataOf = ({ session_id, ip, hello }: Session) => ({ session_id, ip, boot_id: hello.boot_id, run_id: hello.run_id });
