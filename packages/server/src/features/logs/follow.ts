import type { LogRecordBody } from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import type { Session } from "../../link/index.ts";
import type { LogPosition } from "./store.ts";
import { toLines } from "./wire.ts";

/** One flush of a robot, as followers get it. Shared between them: not to be changed. */
export class LiveBatch {
  readonly robot_id: string;
  readonly outbox_id: string;
  readonly received_at: string;
  readonly records: readonly LogRecordBody[];
  /** Where the robot's log ended before this flush. */
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

  /** Each record as JSON; made once, however many follow. */
  get lines(): readonly string[] {
    return (this.#lines ??= toLines(this.records, this.robot_id, this.received_at));
  }
}

/** Called for every flush, after it is stored, in order. It must not wait, and what it keeps it must bound. */
export type LogListener = (batch: LiveBatch) => void;

interface Followed {
  listeners: Set<LogListener>;
  /** Those of them that want it at once. */
  hurried: Set<LogListener>;
  /** The link that was told that somebody follows. */
  told: Session | undefined;
}

const planes = new WeakMap<Plane, Map<string, Followed>>();

function followedOf(plane: Plane): Map<string, Followed> {
  let followed = planes.get(plane);
  if (followed === undefined) planes.set(plane, (followed = new Map<string, Followed>()));
  return followed;
}

const keyOf = (org_id: string, robot_id: string): string => `${org_id}/${robot_id}`;

/**
 * Hears of what the robot logs from now on. The robot sends at once instead of at intervals meanwhile, unless `hurry` is false: a fleet of a thousand that
 * sent twenty times a second each would be a load of its own. The answer ends it.
 */
export function followLogs(plane: Plane, org_id: string, robot_id: string, listener: LogListener, { hurry = true } = {}): () => void {
  const all = followedOf(plane);
  const key = keyOf(org_id, robot_id);
  const followed = all.get(key) ?? { listeners: new Set<LogListener>(), hurried: new Set<LogListener>(), told: undefined };
  all.set(key, followed);
  // Wrapped: the same function twice is two followers.
  const own: LogListener = (batch) => listener(batch);
  followed.listeners.add(own);
  if (hurry) followed.hurried.add(own);
  const session = plane.link.session(robot_id);
  if (session?.org_id === org_id) tellFollowed(followed, session);
  return () => {
    if (!followed.listeners.delete(own)) return;
    if (followed.listeners.size === 0) all.delete(key);
    if (!followed.hurried.delete(own) || followed.hurried.size > 0) return;
    if (followed.told !== undefined && followed.told === plane.link.session(robot_id))
      followed.told.send({ type: "log_follow", on: false });
    followed.told = undefined;
  };
}

/** Tells a new link of a robot that its log is being followed. Call it when a robot connected; its first flush does so too. */
export function resumeFollowing(plane: Plane, session: Session): void {
  const followed = followedOf(plane).get(keyOf(session.org_id, session.robot_id));
  if (followed !== undefined) tellFollowed(followed, session);
}

function tellFollowed(followed: Followed, session: Session): void {
  if (followed.told === session || followed.hurried.size === 0) return;
  followed.told = session;
  session.send({ type: "log_follow", on: true });
}

/** Hands a stored flush to the robot's followers. */
export function publishBatch(
  plane: Plane,
  session: Session,
  received_at: string,
  records: readonly LogRecordBody[],
  before: LogPosition,
): void {
  const followed = followedOf(plane).get(keyOf(session.org_id, session.robot_id));
  if (followed === undefined) return;
  if (session === plane.link.session(session.robot_id)) tellFollowed(followed, session);
  const batch = new LiveBatch(session.robot_id, session.hello.outbox_id, received_at, records, before);
  for (const listener of Array.from(followed.listeners)) {
    try {
      listener(batch);
    } catch (error) {
      plane.log.error({ err: error, robot_id: session.robot_id }, "a follower of a log failed");
    }
  }
}
