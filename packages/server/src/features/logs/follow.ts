import type { LogRecordBody } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { planeState } from "../../kernel/kernel-plane.ts";
import type { Session } from "../../link/index.ts";
import type { LogPosition } from "./store.ts";
import { toLines } from "./codec.ts";

/** The records of one log message of a robot (a flush). Immutable, because all followers share it. */
export class LiveBatch {
  readonly robot_id: string;
  readonly outbox_id: string;
  readonly received_at: string;
  readonly records: readonly LogRecordBody[];
  /** Position of the robot's log before this flush. */
  readonly before: LogPosition;
  #lines: readonly string[] | undefined;

  constructor(robot_id: string, outbox_id: string, received_at: string, records: readonly LogRecordBody[], before: LogPosition) {
    this.robot_id = robot_id;
    this.outbox_id = outbox_id;
    this.received_at = received_at;
    this.records = records;
    this.before = before;
  }

  get first_seq(): number {
    return this.records[0]?.seq ?? 0;
  }

  get last_seq(): number {
    return this.records.at(-1)?.seq ?? 0;
  }

  /** Returns each record as JSON. Serializes the records once for all followers. */
  get lines(): readonly string[] {
    return (this.#lines ??= toLines(this.records, this.robot_id, this.received_at));
  }
}

/** Called for every flush in order, after it is stored. The listener must not block, and must limit how much it buffers. */
export type LogListener = (batch: LiveBatch) => void;

interface Followed {
  listeners: Set<LogListener>;
  /** The listeners that need records without delay. */
  hurried: Set<LogListener>;
  /** The robot's connection over which the robot was notified that its log is followed. */
  notified: Session | undefined;
}

const followedOf = planeState((_: Plane) => new Map<string, Followed>());

const keyOf = (org_id: string, robot_id: string): string => `${org_id}/${robot_id}`;

/**
 * Calls `listener` for every new flush of the robot, until the returned function is called. Until then, the robot sends records immediately
 * instead of at intervals, unless `hurry` is false. To follow many robots, pass false: a thousand robots that each send twenty times a
 * second would overload the server.
 */
export function followLogs(plane: Plane, org_id: string, robot_id: string, listener: LogListener, { hurry = true } = {}): () => void {
  const all = followedOf(plane);
  const key = keyOf(org_id, robot_id);
  const followed = all.get(key) ?? { listeners: new Set<LogListener>(), hurried: new Set<LogListener>(), notified: undefined };
  all.set(key, followed);
  // Wrap the listener, so that the set can contain the same function twice.
  const own: LogListener = (batch) => listener(batch);
  followed.listeners.add(own);
  if (hurry) followed.hurried.add(own);
  const session = plane.link.session(robot_id);
  if (session?.org_id === org_id) notifyFollowed(followed, session);
  return () => {
    if (!followed.listeners.delete(own)) return;
    if (followed.listeners.size === 0) all.delete(key);
    if (!followed.hurried.delete(own) || followed.hurried.size > 0) return;
    if (followed.notified !== undefined && followed.notified === plane.link.session(robot_id))
      followed.notified.send({ type: "log_follow", on: false });
    followed.notified = undefined;
  };
}

/** Notifies a robot over a new connection that its log is followed. Call it when the robot connects. */
export function resumeFollowing(plane: Plane, session: Session): void {
  const followed = followedOf(plane).get(keyOf(session.org_id, session.robot_id));
  if (followed !== undefined) notifyFollowed(followed, session);
}

function notifyFollowed(followed: Followed, session: Session): void {
  if (followed.notified === session || followed.hurried.size === 0) return;
  followed.notified = session;
  session.send({ type: "log_follow", on: true });
}

/** Passes a stored flush to the robot's followers. */
export function publishBatch(
  plane: Plane,
  session: Session,
  received_at: string,
  records: readonly LogRecordBody[],
  before: LogPosition,
): void {
  const followed = followedOf(plane).get(keyOf(session.org_id, session.robot_id));
  if (followed === undefined) return;
  if (session === plane.link.session(session.robot_id)) notifyFollowed(followed, session);
  const batch = new LiveBatch(session.robot_id, session.hello.outbox_id, received_at, records, before);
  for (const listener of Array.from(followed.listeners)) {
    try {
      listener(batch);
    } catch (error) {
      plane.log.error({ err: error, robot_id: session.robot_id }, "a live log reader failed");
    }
  }
}
