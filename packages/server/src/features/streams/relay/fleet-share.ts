import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import type { Plane } from "../../../context.ts";
import { badRequest } from "../../../kernel/fault.ts";
import { wireTime } from "../../../kernel/time.ts";
import type { LiveBatch } from "../../logs/index.ts";
import { FleetFollowers, type FollowedFleet } from "../fleet-followers.ts";
import { type LogWish, readLogWish } from "../log-query.ts";
import { wantedFlush, type WantedFlush } from "../log-stream.ts";
import { Gaps } from "../record-sender.ts";

export const FLEET_SHARE_PATH = "/nodes/fleet-logs";
/** What another node may ask for, in the header of admissions. */
export interface ShareWish extends FollowedFleet {
  /** How soon one that has left the fleet is not heard any more. */
  look_every_ms: number;
}
/** What may wait for another node; records beyond are left out, and told as a gap. */
const SHARE_BYTES_MAX = 1024 * 1024;
/** Sent when all robots of the moment are followed: from then on nothing is missing. */
export const SHARE_READY = "";

/** A flush as nodes tell it each other: which it is in the first line, then one record a line, untouched on the way. */
export const encodeFlush = ({ lines, ...key }: WantedFlush): string => `${JSON.stringify(key)}\n${lines.join("\n")}`;

export function decodeFlush(text: string): WantedFlush {
  const [key = "", ...lines] = text.split("\n");
  return { ...(JSON.parse(key) as Omit<WantedFlush, "lines">), lines };
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
    const { org_id, fleet_id, look_every_ms } = (asked ?? {}) as Partial<ShareWish>;
    if (typeof org_id !== "string" || typeof fleet_id !== "string" || typeof look_every_ms !== "number")
      throw badRequest("a server of another version asks for a fleet's log in a way that this one does not know");
    const wish = readLogWish(query);
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      void new FleetShare(this.#plane, ws, socket, wish, { org_id, fleet_id, look_every_ms }).start();
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

  constructor(plane: Plane, ws: WebSocket, socket: Duplex, wish: LogWish, { look_every_ms, ...fleet }: ShareWish) {
    this.#plane = plane;
    this.#ws = ws;
    this.#wish = wish;
    this.#every_ms = look_every_ms;
    this.#followers = new FleetFollowers(plane, fleet, (batch) => this.#take(batch));
    ws.on("error", () => {}); // a close event follows
    ws.once("close", () => this.#followers.end());
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
  }

  #take(batch: LiveBatch): void {
    const flush = wantedFlush(this.#wish, batch);
    if (flush.lines.length === 0) return;
    if (this.#ws.bufferedAmount < SHARE_BYTES_MAX && this.#gaps.none) this.#ws.send(encodeFlush(flush));
    else for (const seq of flush.seqs) this.#gaps.add(flush.robot_id, seq);
  }

  #tellGaps(): void {
    if (this.#gaps.none || this.#ws.readyState !== this.#ws.OPEN) return;
    for (const record of this.#gaps.take(wireTime(this.#plane.clock.now()))) {
      const { robot_id, received_at, seq } = record;
      this.#ws.send(encodeFlush({ robot_id, received_at, first_seq: seq, seqs: [seq], lines: [JSON.stringify(record)] }));
    }
  }
}
