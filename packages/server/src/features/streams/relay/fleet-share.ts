import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import type { Timer } from "@roamfleet/clock";
import type { Plane } from "../../../context.ts";
import { badRequest } from "../../../kernel/fault.ts";
import { wireTime } from "../../../kernel/time.ts";
import { isSame, type LiveBatch } from "../../logs/index.ts";
import { FleetFollowers, type FollowedFleet } from "../fleet-followers.ts";
import { type LogWish, readLogWish } from "../log-query.ts";
import { endOfFlush, wantedFlush, type WantedFlush } from "../log-stream.ts";
import { Gaps } from "../record-sender.ts";

export const FLEET_SHARE_PATH = "/nodes/fleet-logs";
/** The request of another node for a fleet's log, in the header of admissions. */
export interface ShareWish extends FollowedFleet {
  /** Interval of the check for robots that left the fleet. */
  look_every_ms: number;
  /** Whether it accepts flushes without matching records, which report the end of a robot's log. */
  positions?: boolean;
}
/** Most bytes buffered for another node; further records are dropped and reported as a gap. */
const SHARE_BYTES_MAX = 1024 * 1024;
/** Interval at which the ends of logs without matching records are sent; shorter than the other server's comparison of positions. */
const POSITIONS_EVERY_MS = 20_000;
/** Sent when all present robots are followed: from then on no record is missing. */
export const SHARE_READY = "";

/** Encodes a flush for another node: its key in the first line, then one unchanged record in each line. */
export const encodeFlush = ({ lines, ...key }: WantedFlush): string => `${JSON.stringify(key)}\n${lines.join("\n")}`;

export function decodeFlush(text: string): WantedFlush {
  const [key = "", ...lines] = text.split("\n");
  const flush = JSON.parse(key) as Omit<WantedFlush, "lines">;
  return { ...flush, lines: flush.seqs.length === 0 ? [] : lines };
}

/** Sends the logs of a fleet's local robots to other nodes for their viewers, which those nodes have authenticated. */
export class FleetShares {
  readonly #plane: Plane;
  readonly #server = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: 1024 });

  constructor(plane: Plane) {
    this.#plane = plane;
  }

  /** Starts a share. Throws 400 if this version cannot read the request. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, asked: unknown, query: URLSearchParams): void {
    const { org_id, fleet_id, look_every_ms, positions = false } = (asked ?? {}) as Partial<ShareWish>;
    if (typeof org_id !== "string" || typeof fleet_id !== "string" || typeof look_every_ms !== "number")
      throw badRequest("a server of another version requests a fleet's log in a format that this one does not support");
    const wish = readLogWish(query);
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      void new FleetShare(this.#plane, ws, socket, wish, { org_id, fleet_id, look_every_ms, positions }).start();
    });
  }

  close(): void {
    for (const ws of this.#server.clients) ws.terminate();
  }
}

class FleetShare {
  readonly #plane: Plane;
  readonly #ws: WebSocket;
  readonly #wish: LogWish;
  readonly #followers: FleetFollowers;
  readonly #every_ms: number;
  readonly #gaps = new Gaps();
  /** For each robot, a flush that merges those not sent because no record matched. It starts at the end of the last sent flush. */
  readonly #unwanted = new Map<string, WantedFlush>();
  readonly #tells_positions: boolean;
  #positions: Timer | undefined;

  constructor(plane: Plane, ws: WebSocket, socket: Duplex, wish: LogWish, { look_every_ms, positions, ...fleet }: ShareWish) {
    this.#plane = plane;
    this.#ws = ws;
    this.#wish = wish;
    this.#every_ms = look_every_ms;
    this.#tells_positions = positions === true;
    this.#followers = new FleetFollowers(plane, fleet, (batch) => this.#take(batch));
    ws.on("error", () => {}); // A close event follows.
    ws.once("close", () => {
      this.#positions?.cancel();
      this.#followers.end();
    });
    socket.on("drain", () => this.#tellGaps());
  }

  async start(): Promise<void> {
    try {
      await this.#followers.look();
    } catch (error) {
      this.#plane.log.warn({ err: error }, "could not read the robots of a fleet");
      return this.#ws.close(1011);
    }
    if (this.#ws.readyState !== this.#ws.OPEN) return this.#followers.end();
    this.#followers.every(this.#every_ms);
    this.#ws.send(SHARE_READY);
    if (this.#tells_positions) this.#positions = this.#plane.clock.every(POSITIONS_EVERY_MS, () => this.#tellPositions());
  }

  #take(batch: LiveBatch): void {
    const flush = this.#behindUnwanted(wantedFlush(this.#wish, batch));
    if (flush.lines.length === 0) return void this.#unwanted.set(flush.robot_id, flush);
    this.#unwanted.delete(flush.robot_id);
    if (this.#hasRoom()) this.#ws.send(encodeFlush(flush));
    else for (const seq of flush.seqs) this.#gaps.add(flush.robot_id, seq);
  }

  #hasRoom(): boolean {
    return this.#ws.bufferedAmount < SHARE_BYTES_MAX && this.#gaps.none;
  }

  /** Returns the flush, extended to the start of the unsent ones before it. */
  #behindUnwanted(flush: WantedFlush): WantedFlush {
    const unwanted = this.#unwanted.get(flush.robot_id);
    const follows = isSame(unwanted && endOfFlush(unwanted), flush.before);
    return follows && unwanted?.before !== undefined ? { ...flush, before: unwanted.before } : flush;
  }

  #tellPositions(): void {
    if (!this.#hasRoom()) return;
    for (const flush of this.#unwanted.values()) this.#ws.send(encodeFlush(flush));
    this.#unwanted.clear();
  }

  #tellGaps(): void {
    if (this.#gaps.none || this.#ws.readyState !== this.#ws.OPEN) return;
    for (const record of this.#gaps.take(wireTime(this.#plane.clock.now()))) {
      const { robot_id, received_at, seq } = record;
      this.#ws.send(encodeFlush({ robot_id, received_at, first_seq: seq, seqs: [seq], lines: [JSON.stringify(record)] }));
    }
  }
}
