import type { Plane } from "../../context.ts";
import { fleetPositions, isBefore, isSame, type LogPosition, readBehind, readTail } from "../logs/index.ts";
import type { FollowedFleet } from "./fleet-followers.ts";
import type { LogWish } from "./log-query.ts";
import { endOfFlush, STORED_RECORDS, type WantedFlush } from "./log-stream.ts";
import type { Viewer } from "./viewer.ts";

/**
 * The sent position of each robot's log in the stream of a viewer. A live flush that starts at the position advances it. Otherwise the
 * robot's log is read from the database after its position, one robot at a time, as fast as the viewer reads.
 */
export class FleetPositions {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #fleet: FollowedFleet;
  readonly #wish: LogWish;
  readonly #sent = new Map<string, LogPosition | undefined>();
  /** Robots whose log must be read, including the present one if it has more. */
  readonly #unread = new Set<string>();
  #started = false;
  #reading: string | undefined;
  /** Stored positions at the last comparison: a robot that has not reached its position by the next one is read. */
  #stored = new Map<string, LogPosition | undefined>();
  #suspected = false;

  constructor(plane: Plane, viewer: Viewer, fleet: FollowedFleet, wish: LogWish) {
    this.#plane = plane;
    this.#viewer = viewer;
    this.#fleet = fleet;
    this.#wish = wish;
  }

  /** Whether live flushes may have been missed since the last comparison. */
  get suspected(): boolean {
    return this.#suspected;
  }

  suspect(): void {
    this.#suspected = true;
  }

  has(robot_id: string): boolean {
    return this.#sent.has(robot_id);
  }

  /** Starts with these positions, up to which all records have been sent. */
  start(positions: ReadonlyMap<string, LogPosition | undefined>): void {
    for (const [robot_id, position] of positions) this.#sent.set(robot_id, position);
    this.#started = true;
    this.#readNext();
  }

  /** Advances the position by a live flush and returns true if it must be sent now. Otherwise it was sent before or is read later. */
  advance(flush: WantedFlush): boolean {
    const { robot_id, before } = flush;
    const end = endOfFlush(flush);
    const sent = this.#sent.get(robot_id);
    const follows = isSame(sent, before);
    if (!follows && this.has(robot_id) && end !== undefined && !isBefore(sent, end)) return false;
    if (!this.#started || !follows || this.#reading === robot_id || this.#unread.has(robot_id)) {
      this.read([robot_id]);
      return false;
    }
    this.#sent.set(robot_id, end);
    return true;
  }

  /** Schedules reading the logs of these robots after their positions. */
  read(robots: readonly string[]): void {
    for (const robot_id of robots) this.#unread.add(robot_id);
    this.#readNext();
  }

  /** Schedules reading robots that are behind the stored positions: the present ones if flushes may be missing, otherwise those of the last comparison. */
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

  /** Reads all scheduled robots. A robot that fails is retried with the next call of `read`. */
  async #readAll(): Promise<void> {
    for (const robot_id of this.#unread) {
      if (!this.#viewer.open) return;
      this.#reading = robot_id;
      try {
        await this.#readRobot(robot_id);
      } catch (error) {
        this.#unread.add(robot_id);
        this.#plane.log.warn({ err: error, robot_id }, "could not read the log of a fleet's robot; tries again");
        break;
      }
    }
    this.#reading = undefined;
  }

  /** Sends the records stored after a robot's position, until no flush of the robot arrives during a read. */
  async #readRobot(robot_id: string): Promise<void> {
    const { org_id, fleet_id } = this.#fleet;
    const db = this.#plane.db.forOrg(org_id);
    for (let more = true; more && this.#viewer.open;) {
      this.#unread.delete(robot_id);
      const stored = await fleetPositions(db, org_id, fleet_id, robot_id);
      // The robot has left the fleet.
      if (!stored.has(robot_id)) return;
      if (!this.has(robot_id)) await this.#sendTail(robot_id, stored.get(robot_id));
      const sent = this.#sent.get(robot_id);
      const read = await readBehind(db, org_id, robot_id, sent, this.#wish.match);
      for (const { end, lines } of read.batches) {
        for (const line of lines) await this.#viewer.send(line);
        this.#sent.set(robot_id, end);
      }
      more = read.more || this.#unread.has(robot_id);
    }
  }

  /** Sends the last records of a robot that has joined the fleet. */
  async #sendTail(robot_id: string, end: LogPosition | undefined): Promise<void> {
    const { org_id } = this.#fleet;
    const { records } = await readTail(this.#plane.db.forOrg(org_id), org_id, robot_id, this.#wish.match, STORED_RECORDS);
    this.#sent.set(robot_id, end);
    for (const record of records) if (!isBefore(end, record)) await this.#viewer.send(JSON.stringify(record));
  }
}
