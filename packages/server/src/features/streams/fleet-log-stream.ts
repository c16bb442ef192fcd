import type { LogRecord } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { mayInWholeOrg } from "../../kernel/caller.ts";
import { wireTime } from "../../kernel/time.ts";
import { fleetScan, followLogs, type LiveBatch, robotsOfFleet, scanLogs } from "../logs/index.ts";
import type { StartStream } from "./stream-kind.ts";
import { type LogWish, readLogWish } from "./log-query.ts";
import { sendMatching, STORED_RECORDS, wantedOf } from "./log-stream.ts";
import { RecordSender } from "./record-sender.ts";
import { Collected, SentBatches } from "./sent-batches.ts";
import type { Viewer } from "./viewer.ts";

/** Stored records that one who was cut off is sent at most. */
const REPLAYED_RECORDS_MAX = 2_000;
/** Robots that are moved in, or enrolled, are heard of after this. */
const MEMBERS_EVERY_MS = 5_000;
/** For one who may not see the robots of other places: one that is moved out is not seen longer than this. */
const MEMBERS_EVERY_MS_LIMITED = 1_000;

/** The logs of all robots of a fleet that are connected to this server, as one stream. It does not end when some of them, or all, are offline. */
export function prepareFleetLogs(query: URLSearchParams): StartStream {
  const wish = readLogWish(query);
  return ({ plane }, viewer) => new FleetLogStream(plane, viewer, wish).start();
}

class FleetLogStream {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #wish: LogWish;
  readonly #sender: RecordSender;
  readonly #sent = new SentBatches();
  readonly #follows = new Map<string, () => void>();
  #collected: Collected | undefined = new Collected();

  constructor(plane: Plane, viewer: Viewer, wish: LogWish) {
    this.#plane = plane;
    this.#viewer = viewer;
    this.#wish = wish;
    this.#sender = new RecordSender(plane, viewer);
  }

  async start(): Promise<void> {
    const { caller, kind } = this.#viewer.admitted;
    const every_ms = mayInWholeOrg(caller, kind.role) ? MEMBERS_EVERY_MS : MEMBERS_EVERY_MS_LIMITED;
    const again = this.#plane.clock.every(every_ms, () =>
      this.#followMembers().catch((error: unknown) => this.#plane.log.warn({ err: error }, "could not look who is in a fleet")),
    );
    this.#viewer.onEnd = () => {
      again.cancel();
      for (const end of this.#follows.values()) end();
      this.#follows.clear();
    };
    if (!this.#viewer.open) return this.#viewer.onEnd();
    await this.#followMembers();
    await this.#sendStored();
    const collected = this.#collected?.batches ?? [];
    this.#collected = undefined;
    for (const batch of collected) this.#sendBatch(batch);
  }

  async #followMembers(): Promise<void> {
    const { caller, robot_id: fleet_id } = this.#viewer.admitted;
    const members = new Set(await robotsOfFleet(this.#plane.db.forOrg(caller.org_id), caller.org_id, fleet_id));
    if (!this.#viewer.open) return;
    for (const robot_id of members) {
      if (this.#follows.has(robot_id)) continue;
      const end = followLogs(this.#plane, caller.org_id, robot_id, (batch) => this.#take(batch), { hurry: false });
      this.#follows.set(robot_id, end);
    }
    for (const [robot_id, end] of this.#follows) {
      if (members.has(robot_id)) continue;
      end();
      this.#follows.delete(robot_id);
    }
  }

  async #sendStored(): Promise<void> {
    const { caller, robot_id: fleet_id } = this.#viewer.admitted;
    const { match, after } = this.#wish;
    const db = this.#plane.db.forOrg(caller.org_id);
    const scan = fleetScan(db, this.#plane.clock, caller.org_id, fleet_id, { since: undefined, until: undefined }, after);
    const { records, next, batches } = await scanLogs(scan, match, undefined, after === undefined ? STORED_RECORDS : REPLAYED_RECORDS_MAX);
    for (const batch of batches) this.#sent.add(batch);
    const [oldest] = records.slice(-1);
    if (after !== undefined && next !== undefined && oldest !== undefined)
      await this.#viewer.send(JSON.stringify(leftOut(oldest, after, wireTime(this.#plane.clock.now()))));
    for (const record of records.toReversed()) await this.#viewer.send(JSON.stringify(record));
  }

  #take(batch: LiveBatch): void {
    if (this.#collected === undefined) return this.#sendBatch(batch);
    const wanted = wantedOf(this.#wish, batch);
    if (wanted.length === 0 || this.#collected.add(batch)) return;
    for (const i of wanted) this.#sender.drop(batch.robot_id, batch.records[i]!.seq);
  }

  #sendBatch(batch: LiveBatch): void {
    if (!this.#sent.has(batch)) sendMatching(this.#sender, this.#wish, batch);
  }
}

/** In the place of stored records that are too many to be sent again. */
const leftOut = (oldest: LogRecord, after: Date, now: string): LogRecord => ({
  robot_id: oldest.robot_id,
  seq: oldest.seq,
  at: now,
  received_at: now,
  level: "warn",
  source: "robofleet",
  message: `records that came between ${wireTime(after)} and ${oldest.received_at} are left out: they are too many`,
  fields: { gap: { since: wireTime(after), until: oldest.received_at } },
});
