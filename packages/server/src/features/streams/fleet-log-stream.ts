import type { Timer } from "@roamfleet/clock";
import type { LogRecord } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { mayInWholeOrg } from "../../kernel/caller.ts";
import { wireTime } from "../../kernel/time.ts";
import type { Nodes } from "../../link/index.ts";
import { fleetPositions, fleetScan, isBefore, type LogPosition, scanLogs } from "../logs/index.ts";
import { FleetFollowers } from "./fleet-followers.ts";
import { FleetPositions } from "./fleet-positions.ts";
import type { StartStream } from "./stream-kind.ts";
import { type LogWish, readLogWish } from "./log-query.ts";
import { STORED_RECORDS, wantedFlush, type WantedFlush } from "./log-stream.ts";
import { RecordSender } from "./record-sender.ts";
import { OtherShares } from "./relay/other-shares.ts";
import type { Viewer } from "./viewer.ts";

/** Most stored records sent to a reconnecting viewer. */
const REPLAYED_RECORDS_MAX = 2_000;
/** Interval of the check for robots that joined or left the fleet, and for new servers. */
const MEMBERS_EVERY_MS = 5_000;
/** The same for a viewer that may not see robots of other fleets: it sees a robot that left for at most this long. */
const MEMBERS_EVERY_MS_LIMITED = 1_000;
/** Positions are compared with the database at this interval. */
const POSITIONS_EVERY_MS = 60_000;
/** The parts of the query that other servers need. */
const LIVE_QUERY: readonly string[] = ["level", "source", "q"];

/** Prepares one stream with the logs of all connected robots of a fleet. It stays open while robots are offline. */
export function prepareFleetLogs(query: URLSearchParams): StartStream {
  const wish = readLogWish(query);
  const live = new URLSearchParams([...query].filter(([name]) => LIVE_QUERY.includes(name)));
  return ({ plane, nodes }, viewer) => new FleetLogStream(plane, nodes, viewer, wish, live).start();
}

/**
 * Sends each record once, in order for each robot. It stores the sent position of each robot's log. A live flush that does not start
 * there is dropped, and the robot's log is read from the database instead. It does not compare clocks of servers.
 */
class FleetLogStream {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #wish: LogWish;
  readonly #sender: RecordSender;
  readonly #positions: FleetPositions;
  readonly #every_ms: number;
  readonly #followers: FleetFollowers;
  /** Logs of robots that are connected to other servers. */
  readonly #others: OtherShares | undefined;
  #again: Timer | undefined;
  /** Monotonic time of the last comparison with the database. */
  #compared_at: number;

  constructor(plane: Plane, nodes: Nodes | undefined, viewer: Viewer, wish: LogWish, live: URLSearchParams) {
    this.#plane = plane;
    this.#viewer = viewer;
    this.#wish = wish;
    this.#sender = new RecordSender(plane, viewer);
    const { caller, kind, robot_id: fleet_id } = viewer.admitted;
    const { org_id } = caller;
    this.#every_ms = mayInWholeOrg(caller, kind.role) ? MEMBERS_EVERY_MS : MEMBERS_EVERY_MS_LIMITED;
    this.#compared_at = plane.clock.monotonic();
    this.#positions = new FleetPositions(plane, viewer, { org_id, fleet_id }, wish);
    this.#followers = new FleetFollowers(plane, { org_id, fleet_id }, (batch) => this.#take(wantedFlush(wish, batch)));
    const asked = { wish: { org_id, fleet_id, look_every_ms: this.#every_ms, positions: true }, query: live.toString() };
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
    await this.#others?.look();
    // Records stored from now on arrive live, or are found by comparing positions.
    const start = await this.#readPositions();
    await this.#sendStored(start, after, after === undefined ? STORED_RECORDS : REPLAYED_RECORDS_MAX);
    this.#positions.start(start);
    if (!this.#viewer.open) return;
    // Separate from the check of local robots, which a slow server must not delay: a robot that left must not be followed longer.
    this.#again = this.#plane.clock.every(this.#every_ms, () =>
      this.#lookAgain().catch((error: unknown) => this.#plane.log.warn({ err: error }, "could not compare a stream with the stored logs")),
    );
  }

  #readPositions(): Promise<Map<string, LogPosition | undefined>> {
    const { caller, robot_id: fleet_id } = this.#viewer.admitted;
    return fleetPositions(this.#plane.db.forOrg(caller.org_id), caller.org_id, fleet_id);
  }

  async #lookAgain(): Promise<void> {
    const now = this.#plane.clock.monotonic();
    if ((await this.#others?.look()) === true) this.#positions.suspect();
    // Includes robots that could not be read before.
    this.#positions.read(this.#followers.robots.filter((robot_id) => !this.#positions.has(robot_id)));
    if (!this.#positions.suspected && now - this.#compared_at < POSITIONS_EVERY_MS) return;
    this.#compared_at = now;
    this.#positions.compare(await this.#readPositions());
  }

  /** Sends the last records before the positions, or those received since `after`. */
  async #sendStored(start: Map<string, LogPosition | undefined>, after: Date | undefined, records_max: number): Promise<void> {
    const { caller, robot_id: fleet_id } = this.#viewer.admitted;
    const db = this.#plane.db.forOrg(caller.org_id);
    const scan = fleetScan(db, this.#plane.clock, caller.org_id, fleet_id, { since: undefined, until: undefined }, after);
    const { records, next } = await scanLogs(scan, this.#wish.match, undefined, records_max);
    const [oldest] = records.slice(-1);
    if (after !== undefined && next !== undefined && oldest !== undefined)
      await this.#viewer.send(JSON.stringify(leftOut(oldest, after, wireTime(this.#plane.clock.now()))));
    for (const record of records.toReversed())
      if (!isBefore(start.get(record.robot_id), record)) await this.#viewer.send(JSON.stringify(record));
  }

  #take(flush: WantedFlush): void {
    if (this.#positions.advance(flush)) this.#sender.send(flush.robot_id, flush.seqs, flush.lines);
  }
}

/** Returns the record that replaces stored records beyond the limit. */
const leftOut = (oldest: LogRecord, after: Date, now: string): LogRecord => ({
  robot_id: oldest.robot_id,
  seq: oldest.seq,
  at: now,
  received_at: now,
  level: "warn",
  source: "roamfleet",
  message: `records received between ${wireTime(after)} and ${oldest.received_at} are left out: there are too many`,
  fields: { gap: { since: wireTime(after), until: oldest.received_at } },
});
