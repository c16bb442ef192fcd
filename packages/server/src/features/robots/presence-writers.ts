import type { Plane } from "../../context.ts";
import { robotActor, SYSTEM } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { KeyedBatcher } from "../../kernel/keyed-batcher.ts";
import { LEASE_MS, type Session } from "../../link/index.ts";
import { announce, type AnnouncedChange } from "../events/index.ts";
import { countTimeline, recordTimeline, recordTimelineMany, type TimelineRecord } from "../timeline/index.ts";
import { type RobotRef, setOffline, setOnline } from "./store-presence.ts";
import { quarantineRobot } from "./store.ts";

/** Maximum connects of robots written in one transaction. Limits how long other transactions wait for the rows of these robots. */
const BATCH_CONNECTS_MAX = 500;
/** Maximum disconnects of robots written in one transaction. */
const BATCH_DISCONNECTS_MAX = 1_000;
/** Maximum concurrent transactions, each for a different org. The limit leaves database connections for other work. */
const BATCHES_AT_ONCE = 3;
const RETRY_MS = 500;

type WriterPlane = Pick<Plane, "db" | "db_errors" | "clock" | "id" | "node" | "log" | "bus">;

interface Connect {
  session: Session;
  /** The connection that the new one replaced, if it was still open. */
  older: Session | undefined;
  /** The public key with which the robot authenticated, if known. The robot's key may have been replaced since then. */
  public_key: Buffer | undefined;
}

/**
 * Writes to the database that robots connected. Writes a single connect immediately. The next batch contains all connects that arrive
 * during a write, so thousands of concurrent connects take few transactions. The gateway limits the length of the queue.
 */
export class ConnectWriter {
  readonly #batcher: KeyedBatcher<Connect, boolean>;

  constructor(plane: WriterPlane) {
    this.#batcher = new KeyedBatcher({
      items_max: BATCH_CONNECTS_MAX,
      concurrency_max: BATCHES_AT_ONCE,
      uniqueBy: ({ session }) => session.robot_id,
      affectsAll: plane.db_errors.isOutage,
      work: (org_id, connects) => writeConnects(plane, org_id, connects),
    });
  }

  /**
   * Resolves with true when the robot is online in the database and the timeline. Resolves with false if the robot was decommissioned,
   * replaced or quarantined since it was admitted.
   */
  record(connect: Connect): Promise<boolean> {
    return this.#batcher.add(connect.session.org_id, connect);
  }
}

function writeConnects(plane: WriterPlane, org_id: string, connects: readonly Connect[]): Promise<boolean[]> {
  return plane.db.forOrg(org_id).transaction(async (tx) => {
    const presences = connects.map(({ session: { session_id, hello }, public_key }) => ({ session_id, hello, public_key }));
    const runs = await setOnline(tx, org_id, plane.node, presences, plane.clock.now());
    const written = connects.filter(({ session }) => runs.has(session.robot_id));
    const changes = written.map(({ session }) => presenceChange(session.robot_id, "online"));
    announce(tx, plane, org_id, changes);
    const entries = written.map(({ session }) => connection(session));
    await recordTimelineMany(tx, plane, entries);
    const admitted = new Set<Connect>(written);
    for (const connect of written) {
      const { session, older } = connect;
      const before = runs.get(session.robot_id) ?? [];
      if (!isDuplicate(before, session.hello.run_id)) continue;
      if ((await recordDuplicate(tx, plane, { session, older, older_run: before[0] })).quarantined) admitted.delete(connect);
    }
    return connects.map((connect) => admitted.has(connect));
  });
}

const connection = ({ org_id, robot_id, session_id, ip, hello: { agent_version, boot_id } }: Session): TimelineRecord => ({
  org_id,
  robot_id,
  kind: "robot.connected",
  actor: robotActor(robot_id),
  summary: "The robot connected",
  data: { session_id, ip, agent_version, boot_id },
});

const presenceChange = (id: string, status: "online" | "offline"): AnnouncedChange => ({ kind: "robot", id, change: "presence", status });

interface Disconnect {
  session: Session;
  reason: string;
  /** Returns false once the robot has a newer connection to this node. Then the disconnect is not written. */
  isNewest: () => boolean;
}

type WaitingDisconnect = Disconnect & { since: number };

/**
 * Writes to the database that robots disconnected, in batches like ConnectWriter. During a database outage, retries until this node's lease
 * would have expired. After that, `sweepDeadNodes` or `compareLinks` marks the robots as offline. The queue is never longer than the number
 * of connections.
 */
export class DisconnectWriter {
  readonly #plane: WriterPlane;
  readonly #batcher: KeyedBatcher<WaitingDisconnect, boolean>;

  constructor(plane: WriterPlane) {
    this.#plane = plane;
    this.#batcher = new KeyedBatcher({
      min_interval_ms: 0,
      items_max: BATCH_DISCONNECTS_MAX,
      concurrency_max: BATCHES_AT_ONCE,
      uniqueBy: ({ session }) => session.robot_id,
      affectsAll: plane.db_errors.isOutage,
      work: (org_id, disconnects) => this.#attempt(org_id, disconnects),
    });
  }

  /**
   * Resolves when the robot is offline in the database and the timeline. Also resolves if the robot has a newer connection, or after a long
   * outage, when the sweep must mark it as offline instead.
   */
  async record(disconnect: Disconnect): Promise<void> {
    const { clock } = this.#plane;
    const waiting = { ...disconnect, since: clock.monotonic() };
    while (!(await this.#batcher.add(disconnect.session.org_id, waiting))) await clock.sleep(RETRY_MS);
  }

  /** Returns, for each disconnect, whether it needs no retry. */
  async #attempt(org_id: string, disconnects: readonly WaitingDisconnect[]): Promise<boolean[]> {
    const { db_errors, clock, log } = this.#plane;
    const current = new Set(disconnects.filter(({ isNewest }) => isNewest()));
    try {
      if (current.size > 0) await this.#write(org_id, [...current]);
    } catch (error) {
      if (!db_errors.isOutage(error)) throw error;
      const expired_at = clock.monotonic() - LEASE_MS;
      const expired = disconnects.filter((disconnect) => current.has(disconnect) && disconnect.since < expired_at);
      if (expired.length > 0)
        log.warn({ err: error, org_id, robots: expired.length }, "the database did not respond; a later sweep records the disconnects");
      return disconnects.map((disconnect) => disconnect.since < expired_at || !current.has(disconnect));
    }
    return disconnects.map(() => true);
  }

  #write(org_id: string, disconnects: readonly Disconnect[]): Promise<void> {
    const by_robot = new Map(disconnects.map((disconnect) => [disconnect.session.robot_id, disconnect]));
    return this.#plane.db.forOrg(org_id).transaction(async (tx) => {
      const robots = Array.from(by_robot.keys(), (id) => ({ org_id, id }));
      await recordOffline(tx, this.#plane, await setOffline(tx, this.#plane.node, robots), ({ id }) => {
        const { session, reason } = by_robot.get(id) as Disconnect;
        return { reason, session_id: session.session_id };
      });
    });
  }
}

/**
 * Publishes that robots are offline, and adds an entry to the timeline of each. `dataOf` returns the reason and further data for the entry.
 */
export async function recordOffline(
  tx: Db,
  plane: Pick<Plane, "bus" | "clock" | "id">,
  robots: readonly RobotRef[],
  dataOf: (robot: RobotRef) => { reason: string; session_id?: string },
): Promise<void> {
  for (const { org_id, id } of robots) announce(tx, plane, org_id, presenceChange(id, "offline"));
  const entries = robots.map((robot): TimelineRecord => {
    const { org_id, id: robot_id } = robot;
    const { reason, ...data } = dataOf(robot);
    const summary = `The robot disconnected: ${reason}`;
    return { org_id, robot_id, kind: "robot.disconnected", actor: robotActor(robot_id), summary, data: { ...data, reason } };
  });
  await recordTimelineMany(tx, plane, entries);
}

const DUPLICATE = "robot.duplicate_identity";
/**
 * Number of duplicate connections within WINDOW_MS after which a robot is quarantined, until an operator decides which machine is the
 * robot.
 */
const DUPLICATES_MAX = 3;
const WINDOW_MS = 600_000;
/** Number of timeline entries for each duplicate: one for each of the two connections. */
const ENTRIES_EACH = 2;

/**
 * Whether two running agents use the same identity. A run is one start of an agent. A new run proves nothing: after a restart, a robot may
 * connect while its old connection still seems open. But an ended run never connects again. So a run that connects after a newer run
 * replaced it is still running elsewhere.
 */
const isDuplicate = (runs_before: readonly string[], run_id: string): boolean => runs_before.indexOf(run_id) > 0;

interface Duplicate {
  session: Session;
  /** The connection that the new one replaced, if it was still open. */
  older: Session | undefined;
  older_run: string | undefined;
}

/**
 * Records in the timeline that two machines use the identity of the robot. At the third duplicate within ten minutes, quarantines the
 * robot.
 */
async function recordDuplicate(
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
      summary: "A second machine connected with this robot's identity and replaced the connection of the first machine",
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
    summary: `The robot was quarantined: several machines used its identity ${DUPLICATES_MAX} times in ten minutes. An operator must decide which machine is the robot`,
  });
  return { quarantined: true };
}

const dataOf = ({ session_id, ip, hello }: Session) => ({ session_id, ip, boot_id: hello.boot_id, run_id: hello.run_id });
