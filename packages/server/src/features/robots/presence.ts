import type { Plane } from "../../context.ts";
import { type Failures, isolateFailures } from "../../kernel/isolate-failures.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import { deleteIsolated } from "../../kernel/retention.ts";
import type { Session } from "../../link/index.ts";
import { ConnectWriter, DisconnectWriter, recordOffline } from "./presence-writers.ts";
import { CLOSE_REMOVED, CLOSE_REMOVED_REASON, CLOSE_REPLACED_REASON } from "./remove.ts";
import { listOnlineOf, listRemovedAmong, setOffline, setOfflineOfDeadNodes, type Seen, updateSeen } from "./store-presence.ts";

const SEEN_ROWS_MAX = 5_000;
const SWEEP_ROWS_MAX = 5_000;

/** The newest connection of a robot to this node, and the pending write of its presence. */
interface Holder {
  session: Session;
  /** False once the connection has closed. */
  is_open: boolean;
  /** Whether the database shows that the robot connected. */
  is_written: boolean;
  work: Promise<void>;
}

interface Presences {
  holders: Map<string, Holder>;
  connects: ConnectWriter;
  disconnects: DisconnectWriter;
}

const presencesOf = planeState((plane: Plane): Presences => ({
  holders: new Map(),
  connects: new ConnectWriter(plane),
  disconnects: new DisconnectWriter(plane),
}));

/**
 * Records that the robot is online, in its row and timeline, in one transaction. Writes the connections of a robot one after the other, so
 * that the row shows the newest one. Closes the connection if the robot was decommissioned, replaced or quarantined since it was admitted.
 */
export async function robotConnected(plane: Plane, session: Session, public_key?: Buffer): Promise<void> {
  const known = presencesOf(plane).holders;
  const before = known.get(session.robot_id);
  const work = settled(before?.work).then(async () => {
    const older = before?.is_open === true ? before.session : undefined;
    const is_recorded = await presencesOf(plane).connects.record({ session, older, public_key });
    if (!is_recorded) session.close(CLOSE_REMOVED, CLOSE_REMOVED_REASON);
  });
  const holder = { session, is_open: true, is_written: false, work };
  known.set(session.robot_id, holder);
  await work;
  holder.is_written = true;
}

/** Resolves when the earlier work has ended. Ignores an error of that work, because the caller that started it handles the error. */
const settled = async (work: Promise<void> | undefined): Promise<void> => {
  await Promise.allSettled([work]);
};

/** Records that the robot is offline, unless the robot has a newer connection to this or another node. */
export async function robotDisconnected(plane: Plane, session: Session, reason: string): Promise<void> {
  const { holders: known, disconnects } = presencesOf(plane);
  const holder = known.get(session.robot_id);
  if (holder?.session !== session) return;
  const isNewest = () => known.get(session.robot_id)?.session === session;
  // Wait until the connect is written: the connection may close while that write is still running.
  const work = settled(holder.work).then(() => disconnects.record({ session, reason, isNewest }));
  const ending = { session, is_open: false, is_written: false, work };
  known.set(session.robot_id, ending);
  try {
    await work;
  } finally {
    if (known.get(session.robot_id) === ending) known.delete(session.robot_id);
  }
}

/** Writes the times at which robots were last seen. `link.takeSeen()` returns these times. */
export async function flushSeen(plane: Plane, seen: ReadonlyMap<string, { org_id: string; at: Date }>): Promise<void> {
  const rows: Seen[] = Array.from(seen, ([id, { org_id, at }]) => ({ org_id, id, at }));
  let failures: Failures<unknown> | undefined;
  for (let from = 0; from < rows.length; from += SEEN_ROWS_MAX)
    failures =
      (await isolateFailures(rows.slice(from, from + SEEN_ROWS_MAX), plane.db_errors.isOutage, (some) => updateSeen(plane.db, some))) ??
      failures;
  if (failures !== undefined) throw failures.error;
}

/** Marks robots of dead nodes as offline. If a batch fails, continues with the others, and then rejects with the first error. */
export async function sweepDeadNodes(plane: Plane): Promise<void> {
  await deleteIsolated(plane.db_errors.isOutage, (limit, offset) =>
    plane.db.transaction(async (tx) => {
      const gone = await setOfflineOfDeadNodes(tx, plane.node, limit, offset);
      await recordOffline(tx, plane, gone, () => ({ reason: "its server stopped" }));
      return gone.length;
    }),
  );
}

/**
 * Reconciles the robot connections of this node with the database. Returns true if more robots may have to be marked as offline.
 * - The database shows a robot as connected to this node, but it is not: its disconnect was not written. Marks the robot as offline.
 * - A robot is connected to this node, but not in the database: other nodes considered this node dead, the robot is connected elsewhere, or
 *   the notification that it was removed or replaced was lost. Closes the connection, so that a valid robot reconnects.
 */
export async function compareLinks(plane: Plane): Promise<boolean> {
  const { holders } = presencesOf(plane);
  // List the connections before reading the rows. Otherwise a robot that connects in between would be missing in the rows.
  const written = [...holders.values()].filter(({ is_open, is_written }) => is_open && is_written);
  const online = await listOnlineOf(plane.db, plane.node);
  const lost = online.filter(({ id }) => plane.link.session(id) === undefined && !holders.has(id));
  const failures = await isolateFailures(lost.slice(0, SWEEP_ROWS_MAX), plane.db_errors.isOutage, (some) =>
    plane.db.transaction(async (tx) =>
      recordOffline(tx, plane, await setOffline(tx, plane.node, some), () => ({ reason: "connection lost" })),
    ),
  );
  const shown = new Map(online.map(({ id, session_id }) => [id, session_id]));
  const mismatched = written.filter(
    (holder) => shown.get(holder.session.robot_id) !== holder.session.session_id && holders.get(holder.session.robot_id) === holder,
  );
  if (mismatched.length > 0) await closeMismatched(plane, mismatched, shown);
  if (failures !== undefined) throw failures.error;
  return lost.length > SWEEP_ROWS_MAX;
}

async function closeMismatched(
  plane: Plane,
  mismatched: readonly Holder[],
  shown: ReadonlyMap<string, string | null | undefined>,
): Promise<void> {
  const robots = mismatched.map(({ session: { org_id, robot_id: id } }) => ({ org_id, id }));
  const removed = new Set((await listRemovedAmong(plane.db, robots)).map(({ id }) => id));
  const disconnecting: Session[] = [];
  for (const { session } of mismatched) {
    if (removed.has(session.robot_id)) session.close(CLOSE_REMOVED, CLOSE_REMOVED_REASON);
    else if (shown.get(session.robot_id) === null) session.close(CLOSE_REMOVED, CLOSE_REPLACED_REASON);
    else disconnecting.push(session);
  }
  plane.log.warn(
    { robots: mismatched.length, sent_away: disconnecting.length },
    "closed links of robots that the database does not list as connected to this server",
  );
  plane.link.sendAway(disconnecting, "other servers considered this server dead");
}
