import type { Plane } from "../../context.ts";
import { fleetPositions, isBefore, isSame, type LogPosition, readBehind, readTail } from "../logs/index.ts";
import type { FollowedFleet } from "./fleet-followers.ts";
import type { LogWish } from "./log-query.ts";
import { endOfFlush, STORED_RECORDS, type WantedFlush } from "./log-stream.ts";
import type { Viewer } from "./viewer.ts";

/**
 * How far the log of each robot of a fleet was sent to a viewer. Live flushes move a robot's position on when they begin
 * there; otherwise the robot's log is read from the database behind its position, one robot after another, at the viewer's pace.
 */
export class FleetPositions {
  readonly #plane: Plane;
  readonly #viewer: Viewer;
  readonly #fleet: FollowedFleet;
  readonly #wish: LogWish;
  readonly #sent = new Map<string, LogPosition | undefined>();
  /** Robots whose log is to be read, or is being read and has more. */
  readonly #unread = new Set<string>();
  #started = false;
  #reading: string | undefined;
  /** What was stored at the last comparison: a robot that has not come so far by the next one is read. */
  #stored = new Map<string, LogPosition | undefined>();
  #suspected = false;

  constructor(plane: Plane, viewer: Viewer, fleet: FollowedFleet, wish: LogWish) {
    this.#plane = plane;
    this.#viewer = viewer;
    this.#fleet = fleet;
    this.#wish = wish;
  }

  /** Flushes may not have been heard since the last comparison. */
  get suspected(): boolean {
    return this.#suspected;
  }

  suspect(): void {
    this.#suspected = true;
  }

  has(robot_id: string): boolean {
    return this.#sent.has(robot_id);
  }

  /** All records up to these positions have been sent. */
  start(positions: ReadonlyMap<string, LogPosition | undefined>): void {
    for (const [robot_id, position] of positions) this.#sent.set(robot_id, position);
    this.#started = true;
    this.#readNext();
  }

  /** Whether a live flush is to be sent now; it is sent later, or was sent before, otherwise. */
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

  /** Has the logs of these robots read behind their positions. */
  read(robots: readonly string[]): void {
    for (const robot_id of robots) this.#unread.add(robot_id);
    this.#readNext();
  }

  /** Reads robots that are behind what is stored: all of them after a suspicion, otherwise those that were so at the last comparison. */
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

  /** A robot that could not be read is read again with the next call of `read`. */
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

  /** Sends what is stored behind a robot's position, until nothing was heard of the robot meanwhile. */
  async #readRobot(robot_id: string): Promise<void> {
    const { org_id, fleet_id } = this.#fleet;
    const db = this.#plane.db.forOrg(org_id);
    for (let more = true; more && this.#viewer.open;) {
      this.#unread.delete(robot_id);
      const stored = await fleetPositions(db, org_id, fleet_id, robot_id);
      // It has left the fleet.
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
