import type { Plane } from "../../context.ts";
import { followLogs, isBefore, isSame, type LiveBatch, type LogPosition, readBehind, readTail } from "../logs/index.ts";
import type { StartStream } from "./stream-kind.ts";
import { type LogWish, readLogWish } from "./log-query.ts";
import { RecordSender } from "./record-sender.ts";
import { bytesOfBatch, Collected } from "./collected.ts";
import type { Viewer } from "./viewer.ts";

/** Records that a viewer is sent when it comes. */
export const STORED_RECORDS = 100;

/** The log of a robot, from the last stored records on; of one that is not connected what is stored, and then its end. */
export function prepareLogs(query: URLSearchParams): StartStream {
  const wish = readLogWish(query);
  return ({ plane }, viewer) => new LogStream(plane, viewer, wish).start();
}

/** Sends a viewer stored records and then each new one, without a hole and without sending one twice. */
class LogStream {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #wish: LogWish;
  readonly #sender: RecordSender;
  /** How far the log was sent. */
  #end: LogPosition | undefined;
  /** Live flushes are sent at once, are kept until all that is stored before them has been sent, or are left to be read from the database. */
  #live: "send" | Collected | undefined;

  constructor(plane: Plane, viewer: Viewer, wish: LogWish) {
    this.#plane = plane;
    this.#viewer = viewer;
    this.#wish = wish;
    this.#sender = new RecordSender(plane, viewer);
  }

  /** Resolves when the stored records are sent. The robot need not be connected. */
  async start(): Promise<void> {
    const { org_id } = this.#viewer.admitted.caller;
    const { robot_id } = this.#viewer.admitted;
    // First the live ones: what is stored from now on is heard of.
    const end = followLogs(this.#plane, org_id, robot_id, (batch) => this.#take(batch));
    this.#viewer.onEnd = end;
    if (!this.#viewer.open) return end();
    const { after } = this.#wish;
    if (after === undefined) await this.#sendTail();
    await this.#catchUp(after === undefined ? this.#end : { received_at: after.toISOString(), seq: 0 });
  }

  async #sendTail(): Promise<void> {
    const { caller, robot_id } = this.#viewer.admitted;
    const tail = await readTail(this.#plane.db.forOrg(caller.org_id), caller.org_id, robot_id, this.#wish.match, STORED_RECORDS);
    for (const record of tail.records) await this.#viewer.send(JSON.stringify(record));
    this.#end = tail.end;
  }

  /**
   * Sends what was stored behind a place, as fast as the viewer reads, until nothing is left but what came live meanwhile. A viewer that is slow reads from
   * the database all the time: it loses nothing and nothing waits for it in memory.
   */
  async #catchUp(from: LogPosition | undefined): Promise<void> {
    const { caller, robot_id } = this.#viewer.admitted;
    const db = this.#plane.db.forOrg(caller.org_id);
    while (this.#viewer.open) {
      const collected = (this.#live = new Collected());
      const read = await readBehind(db, caller.org_id, robot_id, this.#end ?? from, this.#wish.match);
      if (read.more) this.#live = undefined;
      for (const { end, lines } of read.batches) {
        for (const line of lines) await this.#viewer.send(line);
        this.#end = end;
      }
      // Too much came: that is read from the database, too.
      if (this.#live !== collected) continue;
      this.#live = "send";
      for (const batch of collected.batches) this.#take(batch);
      return;
    }
  }

  /** A flush before this one was stored and not heard, as when the database answered its commit too late. */
  #readMissed(): void {
    this.#live = undefined;
    this.#catchUp(this.#end).catch((error: unknown) => {
      this.#plane.log.error({ err: error }, "could not read the log of a robot");
      this.#viewer.close(1011, "the server could not serve the stream");
    });
  }

  #take(batch: LiveBatch): void {
    if (this.#live === "send") this.#sendBatch(batch);
    else if (this.#live?.add(batch, bytesOfBatch(batch)) === false) this.#live = undefined;
  }

  #sendBatch(batch: LiveBatch): void {
    const { received_at, last_seq: seq, before } = batch;
    // A flush is heard of a moment after it is stored: it may be among those that were read before.
    const follows = isSame(this.#end, before);
    if (!follows && !isBefore(this.#end, { received_at, seq })) return;
    if (!follows && this.#end !== undefined) return this.#readMissed();
    this.#end = { received_at, seq };
    const { robot_id, seqs, lines } = wantedFlush(this.#wish, batch);
    this.#sender.send(robot_id, seqs, lines);
  }
}

/** Which records of a flush are wanted, as places in it. */
const wantedOf = ({ match }: LogWish, { records }: LiveBatch): number[] =>
  match.all
    ? [...records.keys()]
    : records
        .keys()
        .filter((i) => match.holds(records[i]!))
        .toArray();

/** What a viewer is sent of one flush of a robot. */
export interface WantedFlush {
  robot_id: string;
  received_at: string;
  first_seq: number;
  seqs: readonly number[];
  /** The records of these numbers, as JSON. */
  lines: readonly string[];
  /** Of the flush, wanted or not. Servers of earlier versions do not send it, and what stands for dropped records has none. */
  last_seq?: number;
  /** Where the robot's log ended before this flush; all in between was wanted by no one, or is in it. */
  before?: LogPosition;
}

/** Where the robot's log ends behind a flush. */
export const endOfFlush = ({ received_at, last_seq }: WantedFlush): LogPosition | undefined =>
  last_seq === undefined ? undefined : { received_at, seq: last_seq };

export function wantedFlush(wish: LogWish, batch: LiveBatch): WantedFlush {
  const { robot_id, received_at, first_seq, last_seq, before, records, lines } = batch;
  const indices = wantedOf(wish, batch);
  const seqs = indices.map((i) => records[i]!.seq);
  return { robot_id, received_at, first_seq, last_seq, before, seqs, lines: wish.match.all ? lines : indices.map((i) => lines[i]!) };
}
