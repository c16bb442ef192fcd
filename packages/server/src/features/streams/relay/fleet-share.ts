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
/** What another node may ask for, in the header of admissions. */
export interface ShareWish extends FollowedFleet {
  /** How soon one that has left the fleet is not heard any more. */
  look_every_ms: number;
  /** It takes flushes without wanted records: where a robot's log ends. */
  positions?: boolean;
}
/** What may wait for another node; records beyond are left out, and told as a gap. */
const SHARE_BYTES_MAX = 1024 * 1024;
/** Where logs end whose records are not wanted is sent at this interval, more often than the other server compares positions. */
const POSITIONS_EVERY_MS = 20_000;
/** Sent when all robots of the moment are followed: from then on nothing is missing. */
export const SHARE_READY = "";

/** A flush as nodes tell it each other: which it is in the first line, then one record a line, untouched on the way. */
export const encodeFlush = ({ lines, ...key }: WantedFlush): string => `${JSON.stringify(key)}\n${lines.join("\n")}`;

export function decodeFlush(text: string): WantedFlush {
  const [key = "", ...lines] = text.split("\n");
  const flush = JSON.parse(key) as Omit<WantedFlush, "lines">;
  return { ...flush, lines: flush.seqs.length === 0 ? [] : lines };
}

/** What robots of a fleet log here, for viewers that came to other nodes. Those have been asked who they are there. */
export class FleetShares {
  readonly #plane: Plane;
  readonly #server = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: 1024 });

  constructor(plane: Plane) {
    this.#plane = plane;
  }

  /** Throws 400 for what this version does not understand. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, asked: unknown, query: URLSearchParams): void {
    const { org_id, fleet_id, look_every_ms, positions = false } = (asked ?? {}) as Partial<ShareWish>;
    if (typeof org_id !== "string" || typeof fleet_id !== "string" || typeof look_every_ms !== "number")
      throw badRequest("a server of another version asks for a fleet's log in a way that this one does not know");
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
  /** The last flush of each robot that was not sent, as no record of it is wanted; it begins where the last one that was sent ends. */
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
    ws.on("error", () => {}); // a close event follows
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
      this.#plane.log.warn({ err: error }, "could not look who is in a fleet");
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

  /** The flush, beginning where the unwanted ones before it begin. */
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
