import { CLOSE } from "@roamfleet/protocol/paths";
import { ApiError, type Client, type Ending, isLogCursor, readLogFrame, type Stream } from "@roamfleet/sdk";
import type { Context } from "../context.ts";
import { streamFailure } from "../stream-ending.ts";
import { plain } from "../text.ts";
import { filterQuery, type LogOptions, type LogRecord } from "./records.ts";

const WORDS = { right: "read these logs", again: "Run the command again; the last 100 records are repeated." };
/** Delays before reconnecting; the last one applies to all further attempts. */
const AGAIN_AFTER_MS = [500, 1_000, 2_000, 5_000, 10_000];
/** Maximum consecutive reconnects that deliver no new record. */
const ATTEMPTS_MAX = 30;
/**
 * Maximum consecutive reconnects while the robot is offline. After a server restart, robots reconnect gradually, so the robot may return.
 */
const OFFLINE_ATTEMPTS_MAX = 8;
/**
 * If a stream of several robots resumes by time, it starts this much earlier than its newest record. Records are stored concurrently, so an
 * older record may arrive after a newer one.
 */
const OVERLAP_MS = 5_000;

export interface Followed {
  open: (query: Record<string, string | undefined>, signal: AbortSignal) => Promise<Stream>;
  /** Whether the stream contains records of several robots. */
  many: boolean;
  print: (record: LogRecord) => Promise<void> | void;
}

/**
 * Prints records until interrupted or until the service ends the stream. Reopens a lost stream at the last cursor that the server sent.
 * Without a cursor, or if the server refuses it, reopens at the time of the newest record.
 */
export async function followLogs(context: Context, { open, many, print }: Followed, options: LogOptions): Promise<void> {
  const signal = context.interruptible();
  const { since: after, level, source, q } = filterQuery(options, context.now());
  const seen = new Seen(many);
  let cursor = "";
  let attempts = 0;
  const reopen = async (): Promise<Stream> => {
    const by_time = { level, source, q, after: seen.after ?? after };
    try {
      return await open(cursor === "" ? { ...by_time, cursor } : { level, source, q, cursor }, signal);
    } catch (error) {
      // A server of an earlier version has no parameter `cursor`, and a cursor may have expired: resume by time.
      if (signal.aborted || !(error instanceof ApiError) || error.status !== 400) throw error;
      return await open(by_time, signal);
    }
  };
  for (;;) {
    let ending: Ending | undefined;
    try {
      const stream = await reopen();
      for await (const { data } of stream) {
        if (signal.aborted) break;
        const frame = readLogFrame(data.toString());
        if (frame !== undefined && isLogCursor(frame)) {
          cursor = frame.cursor;
          // A cursor proves that the stream of a fleet works, even if no records arrive. This does not apply to a single robot, whose
          // stream sends a cursor even if the robot is offline.
          if (many) attempts = 0;
        } else if (await take(context, seen, frame ?? data.toString(), print)) attempts = 0;
        await context.out.drained(signal);
      }
      ending = stream.ending ?? { code: 1006, reason: "" };
    } catch (error) {
      if (signal.aborted || attempts === 0 || !isUnreachable(error)) throw error;
      if (attempts >= ATTEMPTS_MAX) throw error;
    }
    if (signal.aborted) throw signal.reason;
    // If no attempt has delivered a record or a cursor, the stream does not work at all and is not retried.
    const may_return = ending?.code === CLOSE.agent_offline && attempts > 0 && attempts <= OFFLINE_ATTEMPTS_MAX;
    const may_reconnect = ending === undefined || ending.code === 1006 || ending.code === CLOSE.draining || may_return;
    const failure = ending === undefined ? undefined : streamFailure(ending, WORDS);
    if (ending !== undefined && (!may_reconnect || !(seen.any || cursor !== "") || attempts >= ATTEMPTS_MAX)) {
      if (failure === undefined) return;
      throw failure;
    }
    if (attempts === 0) context.out.note(`${failure?.message ?? "connection lost"}; reconnecting`);
    await context.clock.sleep(AGAIN_AFTER_MS[Math.min(attempts, AGAIN_AFTER_MS.length - 1)] ?? 0, signal);
    attempts += 1;
  }
}

/** Prints a record and returns whether it was new. */
async function take(context: Context, seen: Seen, record: LogRecord | string, print: Followed["print"]): Promise<boolean> {
  if (typeof record !== "string" && !seen.isNew(record)) return false;
  if (context.structured) await context.out.record(record);
  else if (typeof record === "string") context.out.line(plain(record));
  else await print(record);
  return true;
}

/** Returns whether the server is unreachable. It may be starting, so the request is retried. */
const isUnreachable = (error: unknown): boolean => error instanceof Error && error.name === "Unreachable";

/** Stores the last printed record of each robot, to skip duplicates: a resumed stream repeats the records since the last cursor. */
class Seen {
  readonly #many: boolean;
  readonly #last = new Map<string, { received_at: string; seq: number }>();
  #newest = "";
  any = false;

  constructor(many: boolean) {
    this.#many = many;
  }

  /** The time to resume from; undefined before the first record. */
  get after(): string | undefined {
    if (this.#newest === "") return undefined;
    return this.#many ? new Date(Date.parse(this.#newest) - OVERLAP_MS).toISOString() : this.#newest;
  }

  isNew({ robot_id, received_at, seq, fields }: LogRecord): boolean {
    this.any = true;
    // A gap record may come from the server. It has no position among the robot's records, so it always counts as new.
    if (fields["gap"] !== undefined) return true;
    const last = this.#last.get(robot_id);
    if (last !== undefined && (received_at < last.received_at || (received_at === last.received_at && seq <= last.seq))) return false;
    this.#last.set(robot_id, { received_at, seq });
    if (received_at > this.#newest) this.#newest = received_at;
    return true;
  }
}

/** Maximum offline robots listed by name; the others are only counted. */
const NAMED_MAX = 20;

interface Member {
  name: string;
  online: boolean;
}

/** The robots of a fleet by name, and which of them are online. */
export class FleetNames {
  readonly #context: Context;
  readonly #client: Client;
  readonly #members: Map<string, Member>;

  private constructor(context: Context, client: Client, members: Map<string, Member>) {
    this.#context = context;
    this.#client = client;
    this.#members = members;
  }

  static async read(context: Context, client: Client, fleet_id: string): Promise<FleetNames> {
    const { items } = await client.listRobots({ query: { fleet_id } });
    const members = new Map(items.map(({ id, name, status }) => [id, { name, online: status === "online" }]));
    return new FleetNames(context, client, members);
  }

  /** Prints the offline robots once. */
  noteOffline(): void {
    const offline = Array.from(this.#members.values()).filter(({ online }) => !online);
    if (offline.length === 0) return;
    const names = offline.slice(0, NAMED_MAX).map(({ name }) => plain(name));
    const more = offline.length > names.length ? ` and ${offline.length - names.length} more` : "";
    this.#context.out.note(`offline: ${names.join(", ")}${more}; their records appear when they come online`);
  }

  /** Returns a robot's name, even if the robot joined the fleet later or has left it. Returns the id of a deleted robot. */
  async nameOf(robot_id: string): Promise<string> {
    return (await this.#member(robot_id)).name;
  }

  /**
   * Returns the name of a record's robot. If the robot was offline or unknown, and the record is from `since_ms` or later, prints that the
   * robot is online.
   */
  async nameOfSender(robot_id: string, at_ms: number, since_ms: number): Promise<string> {
    const member = await this.#member(robot_id);
    // A record from before `since_ms` does not prove that the robot is online: the robot may even have been deleted.
    if (!member.online && at_ms >= since_ms) {
      member.online = true;
      this.#context.out.note(`${plain(member.name)} is online`);
    }
    return member.name;
  }

  async #member(robot_id: string): Promise<Member> {
    const known = this.#members.get(robot_id);
    if (known !== undefined) return known;
    const member = { name: await this.#ask(robot_id), online: false };
    this.#members.set(robot_id, member);
    return member;
  }

  async #ask(robot_id: string): Promise<string> {
    try {
      return (await this.#client.getRobot({ params: { id: robot_id } })).data.name;
    } catch {
      return robot_id;
    }
  }
}
