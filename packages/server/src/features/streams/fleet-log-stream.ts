import type { Timer } from "@roamfleet/clock";
import type { LogRecord } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { mayInWholeOrg } from "../../kernel/caller.ts";
import { wireTime } from "../../kernel/time.ts";
import type { Nodes } from "../../link/index.ts";
import { fleetPositions, fleetScan, isBefore, isSame, type LogPosition, readBehind, readTail, scanLogs } from "../logs/index.ts";
import { FleetFollowers, type FollowedFleet } from "./fleet-followers.ts";
import { endOfFlush, type LogRequest, readLogRequest, STORED_RECORDS, matchFlush, type MatchedFlush } from "./log-stream.ts";
import { CURSOR_ROBOTS_MAX, CursorSender, type LogPositions, sortByTime } from "./log-cursor.ts";
import { gapRecord, RecordSender } from "./record-sender.ts";
import { OtherShares } from "./relay/fleet-share.ts";
import type { StartStream, StreamOf } from "./stream-kind.ts";
import type { Viewer } from "./viewer.ts";

/** Maximum stored records that are sent to a viewer that reconnects. */
const REPLAYED_RECORDS_MAX = 2_000;
/** Interval of the check for new servers, and for robots that joined or left the fleet. */
const MEMBERS_EVERY_MS = 5_000;
/**
 * The same interval for viewers that may not see all fleets. After a robot has left the fleet, such a viewer gets the robot's records for
 * at most this time.
 */
const MEMBERS_EVERY_MS_LIMITED = 1_000;
/** Interval at which the positions up to which logs were sent are compared with the stored positions, to find missed records. */
const POSITIONS_EVERY_MS = 60_000;
/** The query parameters that are forwarded to other servers. */
const LIVE_QUERY: readonly string[] = ["level", "source", "q"];

/** Prepares one stream with the logs of all connected robots of a fleet. The stream stays open while robots are offline. */
export function prepareFleetLogs(query: URLSearchParams, of: StreamOf): StartStream {
  const request = readLogRequest(query, of);
  const live = new URLSearchParams([...query].filter(([name]) => LIVE_QUERY.includes(name)));
  return ({ plane, nodes }, viewer) => new FleetLogStream(plane, nodes, viewer, request, live).start();
}

/**
 * Sends each record of a fleet's logs once, in order for each robot. For each robot, keeps the position up to which its log was sent. If a
 * live flush (the records of one log message) does not start at that position, drops the flush and reads the robot's log from the database
 * instead. Does not depend on the clocks of servers.
 */
class FleetLogStream {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #request: LogRequest;
  readonly #sender: RecordSender;
  readonly #positions: FleetPositions;
  readonly #cursors: CursorSender;
  readonly #every_ms: number;
  readonly #followers: FleetFollowers;
  /** Receives the logs of robots that are connected to other servers. */
  readonly #others: OtherShares | undefined;
  #again: Timer | undefined;
  /** When the positions were last compared with the database, by the monotonic clock. */
  #compared_at: number;

  constructor(plane: Plane, nodes: Nodes | undefined, viewer: Viewer, request: LogRequest, live: URLSearchParams) {
    this.#plane = plane;
    this.#viewer = viewer;
    this.#request = request;
    this.#sender = new RecordSender(plane, viewer);
    const { caller, kind, robot_id: fleet_id } = viewer.admitted;
    const { org_id } = caller;
    this.#every_ms = mayInWholeOrg(caller, kind.role) ? MEMBERS_EVERY_MS : MEMBERS_EVERY_MS_LIMITED;
    this.#compared_at = plane.clock.monotonic();
    this.#positions = new FleetPositions(plane, viewer, { org_id, fleet_id }, request);
    this.#cursors = new CursorSender(plane, viewer, () => (this.#sender.has_gaps ? undefined : this.#positions.sent));
    this.#followers = new FleetFollowers(plane, { org_id, fleet_id }, (batch) => this.#take(matchFlush(request, batch)));
    const shared = { request: { org_id, fleet_id, look_every_ms: this.#every_ms, positions: true }, query: live.toString() };
    this.#others = nodes && new OtherShares(plane, nodes, shared, (flush) => this.#take(flush));
  }

  async start(): Promise<void> {
    const { after, resume, with_cursors } = this.#request;
    this.#viewer.onEnd = () => {
      this.#again?.cancel();
      this.#cursors.stop();
      this.#followers.end();
      this.#others?.end();
    };
    if (!this.#viewer.open) return this.#viewer.onEnd();
    this.#followers.every(this.#every_ms);
    await this.#followers.refresh();
    await this.#others?.refresh();
    // Read the positions after following the robots. So later records either arrive live, or a comparison of positions finds them.
    const stored = await this.#readPositions();
    if (resume === undefined) {
      await this.#sendStored(stored, after, after === undefined ? STORED_RECORDS : REPLAYED_RECORDS_MAX);
      this.#positions.start(stored);
    } else this.#positions.resume(resume.positionsOf(stored.keys()), stored);
    if (!this.#viewer.open) return;
    if (with_cursors) this.#cursors.start();
    // This interval is separate from the check of robots on this server. A slow server must not delay that check, because a robot that left
    // the fleet would be followed for too long.
    this.#again = this.#plane.clock.every(this.#every_ms, () =>
      this.#refresh().catch((error: unknown) => this.#plane.log.warn({ err: error }, "could not compare a stream with the stored logs")),
    );
  }

  #readPositions(): Promise<Map<string, LogPosition | undefined>> {
    const { caller, robot_id: fleet_id } = this.#viewer.admitted;
    return fleetPositions(this.#plane.db.forOrg(caller.org_id), caller.org_id, fleet_id);
  }

  async #refresh(): Promise<void> {
    const now = this.#plane.clock.monotonic();
    if ((await this.#others?.refresh()) === true) this.#positions.suspect();
    // Also schedule robots whose log could not be read before.
    this.#positions.read(this.#followers.robots.filter((robot_id) => !this.#positions.has(robot_id)));
    if (!this.#positions.suspected && now - this.#compared_at < POSITIONS_EVERY_MS) return;
    this.#compared_at = now;
    this.#positions.compare(await this.#readPositions());
  }

  /** Sends the last stored records up to the positions in `start`. With `after`, sends the records received since that time. */
  async #sendStored(start: Map<string, LogPosition | undefined>, after: Date | undefined, records_max: number): Promise<void> {
    const { caller, robot_id: fleet_id } = this.#viewer.admitted;
    const db = this.#plane.db.forOrg(caller.org_id);
    const scan = fleetScan(db, this.#plane.clock, caller.org_id, fleet_id, { since: undefined, until: undefined }, after);
    const { records, next } = await scanLogs(scan, this.#request.match, undefined, records_max);
    const [oldest] = records.slice(-1);
    if (after !== undefined && next !== undefined && oldest !== undefined)
      await this.#viewer.send(JSON.stringify(leftOut(oldest, after, wireTime(this.#plane.clock.now()))));
    for (const record of records.toReversed())
      if (!isBefore(start.get(record.robot_id), record)) await this.#viewer.send(JSON.stringify(record));
  }

  #take(flush: MatchedFlush): void {
    if (this.#positions.advance(flush)) this.#sender.send(flush.robot_id, flush.seqs, flush.lines);
  }
}

/** Returns a record that reports stored records which are not sent, because there are too many. */
function leftOut({ robot_id, seq, received_at: until }: LogRecord, after: Date, now: string): LogRecord {
  const since = wireTime(after);
  const message = `too many records: those received between ${since} and ${until} are left out`;
  return gapRecord(robot_id, seq, now, message, { since, until });
}

/**
 * The positions up to which the robots' logs were sent to a viewer. A live flush that starts at its robot's position advances the position.
 * If another flush arrives, reads the robot's log from the database, starting at the position. Reads one robot at a time, as fast as the
 * viewer reads.
 */
class FleetPositions {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #fleet: FollowedFleet;
  readonly #request: LogRequest;
  readonly #sent = new Map<string, LogPosition | undefined>();
  /** Robots whose log must be read from the database. Also contains the robot that is being read, if its log must be read again. */
  readonly #unread = new Set<string>();
  #started = false;
  #reading: string | undefined;
  /**
   * The stored positions at the last comparison. The next comparison schedules each robot whose log was not sent up to its position here.
   */
  #stored = new Map<string, LogPosition | undefined>();
  #suspected = false;

  constructor(plane: Plane, viewer: Viewer, fleet: FollowedFleet, request: LogRequest) {
    this.#plane = plane;
    this.#viewer = viewer;
    this.#fleet = fleet;
    this.#request = request;
  }

  /** Whether live flushes may have been missed since the last comparison. */
  get suspected(): boolean {
    return this.#suspected;
  }

  suspect(): void {
    this.#suspected = true;
  }

  /**
   * The positions up to which all records were sent. For robots beyond CURSOR_ROBOTS_MAX, a cursor contains only one common time.
   * Therefore, in larger fleets, this is undefined while a log is being read: the common time may be after the position in that log, and a
   * resumed stream would skip the records in between.
   */
  get sent(): LogPositions | undefined {
    const is_reading = this.#reading !== undefined || this.#unread.size > 0;
    return is_reading && this.#sent.size > CURSOR_ROBOTS_MAX ? undefined : this.#sent;
  }

  has(robot_id: string): boolean {
    return this.#sent.has(robot_id);
  }

  /** Starts at these positions. All records up to them must have been sent. */
  start(positions: LogPositions): void {
    for (const [robot_id, position] of sortByTime(positions)) this.#sent.set(robot_id, position);
    this.#started = true;
    this.#readNext();
  }

  /** Starts at the positions of an earlier stream. Reads the logs of robots whose stored position is later. */
  resume(positions: LogPositions, stored: Map<string, LogPosition | undefined>): void {
    this.start(positions);
    this.suspect();
    this.compare(stored);
  }

  /**
   * Returns true, and advances the robot's position, if the live flush must be sent now. Returns false if its records were sent before, or
   * will be read from the database.
   */
  advance(flush: MatchedFlush): boolean {
    const { robot_id, before } = flush;
    const end = endOfFlush(flush);
    const sent = this.#sent.get(robot_id);
    const follows = isSame(sent, before);
    if (!follows && this.has(robot_id) && end !== undefined && !isBefore(sent, end)) return false;
    if (!this.#started || !follows || this.#reading === robot_id || this.#unread.has(robot_id)) {
      this.read([robot_id]);
      return false;
    }
    this.#advance(robot_id, end);
    return true;
  }

  /**
   * Sets a robot's position, and moves the robot to the end of the map. So the map stays almost sorted by time, which makes cursors fast to
   * encode.
   */
  #advance(robot_id: string, end: LogPosition | undefined): void {
    this.#sent.delete(robot_id);
    this.#sent.set(robot_id, end);
  }

  /** Schedules reading the logs of these robots from their positions. */
  read(robots: readonly string[]): void {
    for (const robot_id of robots) this.#unread.add(robot_id);
    this.#readNext();
  }

  /**
   * Schedules reading the logs of robots that were not sent up to a stored position. This is the present stored position if live flushes
   * may be missing, and otherwise the stored position at the last comparison.
   */
  compare(stored: Map<string, LogPosition | undefined>): void {
    const goal = this.#suspected ? stored : this.#stored;
    const behind = Array.from(
      goal.keys().filter((robot_id) => !this.has(robot_id) || isBefore(this.#sent.get(robot_id), goal.get(robot_id))),
    );
    this.#suspected = false;
    this.#stored = stored;
    this.read(behind);
  }

  #readNext(): void {
    if (this.#started && this.#reading === undefined && this.#unread.size > 0) void this.#readAll();
  }

  /** Reads the logs of all scheduled robots. Stops at a failure; the next call of `read` retries that robot. */
  async #readAll(): Promise<void> {
    for (const robot_id of this.#unread) {
      if (!this.#viewer.open) return;
      this.#reading = robot_id;
      try {
        await this.#readRobot(robot_id);
      } catch (error) {
        this.#unread.add(robot_id);
        this.#plane.log.warn({ err: error, robot_id }, "could not read the log of a fleet's robot; trying again");
        break;
      }
    }
    this.#reading = undefined;
  }

  /** Sends the records stored after a robot's position. Reads again if flushes of the robot arrive during the read. */
  async #readRobot(robot_id: string): Promise<void> {
    const { org_id, fleet_id } = this.#fleet;
    const db = this.#plane.db.forOrg(org_id);
    for (let more = true; more && this.#viewer.open;) {
      this.#unread.delete(robot_id);
      const stored = await fleetPositions(db, org_id, fleet_id, robot_id);
      // A robot without a position has left the fleet.
      if (!stored.has(robot_id)) return;
      if (!this.has(robot_id)) await this.#sendTail(robot_id, stored.get(robot_id));
      const sent = this.#sent.get(robot_id);
      const read = await readBehind(db, org_id, robot_id, sent, this.#request.match);
      for (const { end, lines } of read.batches) {
        for (const line of lines) await this.#viewer.send(line);
        this.#advance(robot_id, end);
      }
      more = read.more || this.#unread.has(robot_id);
    }
  }

  /** Sends the last records of a robot that has joined the fleet. */
  async #sendTail(robot_id: string, end: LogPosition | undefined): Promise<void> {
    const { org_id } = this.#fleet;
    const { records } = await readTail(this.#plane.db.forOrg(org_id), org_id, robot_id, this.#request.match, STORED_RECORDS);
    for (const record of records) if (!isBefore(end, record)) await this.#viewer.send(JSON.stringify(record));
    this.#sent.set(robot_id, end);
  }
}
