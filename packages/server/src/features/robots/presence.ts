import type { Plane } from "../../context.ts";
import { robotActor } from "../../kernel/caller.ts";
import type { Link, Session } from "../../link/index.ts";
import { recordTimeline, recordTimelineMany } from "../timeline/index.ts";
import { disconnection } from "./disconnection.ts";
import { isDuplicate, tellDuplicate } from "./duplicates.ts";
import { Goings } from "./goings.ts";
import { takeKeyOfHello } from "./identity.ts";
import { CLOSE_REMOVED, CLOSE_REMOVED_REASON } from "./remove.ts";
import { listOnlineOf, setOffline, setOfflineOfDeadNodes, setOnline, type Seen, updateSeen } from "./store-presence.ts";

const SEEN_ROWS_MAX = 5_000;
const SWEEP_ROWS_MAX = 5_000;

/** The newest link of a robot on this node, with the writing of presence that is under way for it. */
interface Holder {
  session: Session;
  /** False once its link has closed. */
  is_open: boolean;
  work: Promise<void>;
}

interface Presences {
  holders: Map<string, Holder>;
  goings: Goings;
}

const presences = new WeakMap<Link, Presences>();

function presencesOf(plane: Plane): Presences {
  let known = presences.get(plane.link);
  if (known === undefined) presences.set(plane.link, (known = { holders: new Map(), goings: new Goings(plane) }));
  return known;
}

/**
 * The robot is online, and its timeline says so, in one transaction. Links of one robot are written in the order in
 * which they came, each after the one before: the newest is what the row says in the end. Closes the link of a robot
 * that was decommissioned, replaced or held meanwhile.
 */
export async function robotConnected(plane: Plane, session: Session): Promise<void> {
  const known = presencesOf(plane).holders;
  const before = known.get(session.robot_id);
  const work = settled(before?.work).then(() => connect(plane, session, before?.is_open === true ? before.session : undefined));
  known.set(session.robot_id, { session, is_open: true, work });
  await work;
}

/** Waits for the end of earlier work; how it ended concerned those who asked for it. */
const settled = async (work: Promise<void> | undefined): Promise<void> => {
  await Promise.allSettled([work]);
};

async function connect(plane: Plane, session: Session, older: Session | undefined): Promise<void> {
  const { org_id, robot_id, session_id, hello, ip } = session;
  const public_key = takeKeyOfHello(hello);
  const is_welcome = await plane.db.forOrg(org_id).transaction(async (tx) => {
    const runs = await setOnline(tx, { org_id, node: plane.node, session_id, hello, public_key }, plane.clock.now());
    if (runs === undefined) return false;
    const { agent_version, boot_id } = hello;
    await recordTimeline(tx, plane, {
      org_id,
      robot_id,
      kind: "robot.connected",
      actor: robotActor(robot_id),
      summary: "The robot connected",
      data: { session_id, ip, agent_version, boot_id },
    });
    return !(isDuplicate(runs, hello.run_id) && (await tellDuplicate(tx, plane, { session, older, older_run: runs[0] })).held);
  });
  if (!is_welcome) session.close(CLOSE_REMOVED, CLOSE_REMOVED_REASON);
}

/** The link is gone: the robot is offline, unless a newer link holds it, on this node or another. */
export async function robotDisconnected(plane: Plane, session: Session, reason: string): Promise<void> {
  const { holders: known, goings } = presencesOf(plane);
  const holder = known.get(session.robot_id);
  if (holder?.session !== session) return;
  const isNewest = () => known.get(session.robot_id)?.session === session;
  // The socket may close while its coming is still being written.
  const work = settled(holder.work).then(() => goings.record({ session, reason, isNewest }));
  const ending = { session, is_open: false, work };
  known.set(session.robot_id, ending);
  try {
    await work;
  } finally {
    if (known.get(session.robot_id) === ending) known.delete(session.robot_id);
  }
}

/** Writes when robots were last heard, as `link.takeSeen()` answers it. */
export async function flushSeen(plane: Plane, seen: ReadonlyMap<string, { org_id: string; at: Date }>): Promise<void> {
  const rows: Seen[] = Array.from(seen, ([id, { org_id, at }]) => ({ org_id, id, at }));
  for (let from = 0; from < rows.length; from += SEEN_ROWS_MAX) await updateSeen(plane.db, rows.slice(from, from + SEEN_ROWS_MAX));
}

/**
 * Robots shown as online that no living link holds become offline: those of nodes that died, and those of this node
 * whose going could not be written. Answers true when there may be more.
 */
export async function sweepDeadNodes(plane: Plane): Promise<boolean> {
  const { holders } = presencesOf(plane);
  const lost = (await listOnlineOf(plane.db, plane.node)).filter(({ id }) => plane.link.session(id) === undefined && !holders.has(id));
  if (lost.length > 0) {
    await plane.db.transaction(async (tx) => {
      const gone = await setOffline(tx, plane.node, lost.slice(0, SWEEP_ROWS_MAX));
      await recordTimelineMany(
        tx,
        plane,
        gone.map((robot) => disconnection(robot, "the link was lost")),
      );
    });
  }
  const swept = await plane.db.transaction(async (tx) => {
    const gone = await setOfflineOfDeadNodes(tx, plane.node, plane.clock.now(), SWEEP_ROWS_MAX);
    await recordTimelineMany(
      tx,
      plane,
      gone.map((robot) => disconnection(robot, "the server that held the link ended")),
    );
    return gone.length;
  });
  return swept === SWEEP_ROWS_MAX || lost.length > SWEEP_ROWS_MAX;
}
