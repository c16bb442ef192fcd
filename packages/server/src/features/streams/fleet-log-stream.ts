import type { Timer } from "@robofleet/clock";
import type { LogRecord } from "@robofleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { mayInWholeOrg } from "../../kernel/caller.ts";
import { wireTime } from "../../kernel/time.ts";
import type { Nodes } from "../../link/index.ts";
import { fleetScan, scanLogs } from "../logs/index.ts";
import { FleetFollowers } from "./fleet-followers.ts";
import type { StartStream } from "./stream-kind.ts";
import { type LogWish, readLogWish } from "./log-query.ts";
import { STORED_RECORDS, wantedFlush, type WantedFlush } from "./log-stream.ts";
import { RecordSender } from "./record-sender.ts";
import { OtherShares } from "./relay/other-shares.ts";
import { Collected, flushKey, type FlushKey, SentBatches } from "./sent-batches.ts";
import type { Viewer } from "./viewer.ts";

/** Stored records that one who was cut off is sent at most. */
const REPLAYED_RECORDS_MAX = 2_000;
/** Robots that are moved in, or enrolled, and servers that come are heard of after this. */
const MEMBERS_EVERY_MS = 5_000;
/** For one who may not see the robots of other places: one that is moved out is not seen longer than this. */
const MEMBERS_EVERY_MS_LIMITED = 1_000;
/** What other servers are to know of the query. */
const LIVE_QUERY: readonly string[] = ["level", "source", "q"];
/** So far apart the clocks of two servers may be without a record being missed when one of them comes back. */
const CLOCKS_APART_MS = 10_000;

/** The logs of all robots of a fleet that are connected, as one stream. It does not end when some of them, or all, are offline. */
export function prepareFleetLogs(query: URLSearchParams): StartStream {
  const wish = readLogWish(query);
  const live = new URLSearchParams([...query].filter(([name]) => LIVE_QUERY.includes(name)));
  return ({ plane, nodes }, viewer) => new FleetLogStream(plane, nodes, viewer, wish, live).start();
}

class FleetLogStream {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #wish: LogWish;
  readonly #sender: RecordSender;
  readonly #sent = new SentBatches();
  readonly #every_ms: number;
  readonly #followers: FleetFollowers;
  /** Of robots that are connected to other servers. */
  readonly #others: OtherShares | undefined;
  #collected: Collected<WantedFlush> | undefined = new Collected();
  /** All robots were heard at this time. */
  #heard_all_at: Date;
  /** What a server stored from this time on could not be heard, and is still to be read. */
  #missed_since: Date | undefined;
  #again: Timer | undefined;

  constructor(plane: Plane, nodes: Nodes | undefined, viewer: Viewer, wish: LogWish, live: URLSearchParams) {
    this.#plane = plane;
    this.#viewer = viewer;
    this.#wish = wish;
    this.#sender = new RecordSender(plane, viewer);
    const { caller, kind, robot_id: fleet_id } = viewer.admitted;
    const { org_id } = caller;
    const look_every_ms = mayInWholeOrg(caller, kind.role) ? MEMBERS_EVERY_MS : MEMBERS_EVERY_MS_LIMITED;
    this.#every_ms = look_every_ms;
    this.#heard_all_at = plane.clock.now();
    this.#followers = new FleetFollowers(plane, { org_id, fleet_id }, (batch) => this.#take(wantedFlush(wish, batch)));
    const asked = { wish: { org_id, fleet_id, look_every_ms }, query: live.toString() };
    this.#others = nodes && new OtherShares(plane, nodes, asked, (flush) => this.#take(flush));
  }

  async start(): Promise<void> {
    const { after } = this.#wish;
    this.#viewer.onEnd = () => {
      this.#again?.cancel();
      this.#followers.end();
      this.#others?.end();
    };
    if (!this.#viewer.open) return this.#viewer.onEnd();
    this.#followers.every(this.#every_ms);
    await this.#followers.look();
    await this.#lookAtOthers();
    await this.#sendStored(after, after === undefined ? STORED_RECORDS : REPLAYED_RECORDS_MAX);
    this.#sendCollected();
    if (this.#others === undefined || !this.#viewer.open) return;
    // Apart from the robots here: who has left the fleet is not heard any longer because a server does not answer.
    this.#again = this.#plane.clock.every(this.#every_ms, () =>
      this.#lookAgain().catch((error: unknown) => this.#plane.log.warn({ err: error }, "could not look which other servers there are")),
    );
  }

  async #lookAgain(): Promise<void> {
    const since = new Date(this.#heard_all_at.getTime() - CLOCKS_APART_MS);
    if (await this.#lookAtOthers()) this.#missed_since ??= since;
    if (this.#missed_since === undefined) return;
    // What comes live waits meanwhile.
    this.#collected = new Collected();
    await this.#sendStored(this.#missed_since, REPLAYED_RECORDS_MAX).finally(() => this.#sendCollected());
    this.#missed_since = undefined;
  }

  /** Whether there is one that was not heard before. */
  async #lookAtOthers(): Promise<boolean> {
    if (this.#others === undefined) return false;
    const now = this.#plane.clock.now();
    const { came, complete } = await this.#others.look();
    if (complete) this.#heard_all_at = now;
    return came > 0;
  }

  async #sendStored(after: Date | undefined, records_max: number): Promise<void> {
    const { caller, robot_id: fleet_id } = this.#viewer.admitted;
    const db = this.#plane.db.forOrg(caller.org_id);
    const scan = fleetScan(db, this.#plane.clock, caller.org_id, fleet_id, { since: undefined, until: undefined }, after);
    const { records, next, batches } = await scanLogs(scan, this.#wish.match, undefined, records_max);
    const flushes = batches.map(flushKey);
    const isSent = sentBefore(flushes, this.#sent);
    for (const flush of flushes) this.#sent.add(flush);
    const [oldest] = records.slice(-1);
    if (after !== undefined && next !== undefined && oldest !== undefined)
      await this.#viewer.send(JSON.stringify(leftOut(oldest, after, wireTime(this.#plane.clock.now()))));
    for (const record of records.toReversed()) if (!isSent(record)) await this.#viewer.send(JSON.stringify(record));
  }

  #take(flush: WantedFlush): void {
    if (this.#collected === undefined) return this.#send(flush);
    const bytes = flush.lines.reduce((sum, line) => sum + line.length, 0);
    if (bytes === 0 || this.#collected.add(flush, bytes)) return;
    for (const seq of flush.seqs) this.#sender.drop(flush.robot_id, seq);
  }

  #sendCollected(): void {
    const collected = this.#collected?.batches ?? [];
    this.#collected = undefined;
    for (const flush of collected) this.#send(flush);
  }

  #send(flush: WantedFlush): void {
    if (this.#sent.has(flush)) return;
    // Without others nothing is read again, and of a flush without wanted records there is nothing to be sent twice.
    if (this.#others !== undefined && flush.lines.length > 0) this.#sent.add(flush);
    this.#sender.send(flush.robot_id, flush.seqs, flush.lines);
  }
}

/** Which records of these flushes were sent when this was asked. */
function sentBefore(flushes: readonly FlushKey[], sent: SentBatches): (record: LogRecord) => boolean {
  const known = flushes.filter((flush) => sent.has(flush));
  if (known.length === 0) return () => false;
  const firsts = Map.groupBy(flushes, ({ robot_id, received_at }) => `${robot_id} ${received_at}`);
  const before = new Set(known);
  return ({ robot_id, received_at, seq }) => {
    const of_then = firsts.get(`${robot_id} ${received_at}`) ?? [];
    // Of flushes that came in the same millisecond, the one that holds it begins last before it.
    const holds = of_then.filter(({ first_seq }) => first_seq <= seq).toSorted((a, b) => b.first_seq - a.first_seq)[0];
    return holds !== undefined && before.has(holds);
  };
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
