import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Timer } from "@roamfleet/clock";
import { WebSocket, WebSocketServer } from "ws";
import type { Plane } from "../../../context.ts";
import { badRequest } from "../../../kernel/fault.ts";
import { wireTime } from "../../../kernel/time.ts";
import type { KnownNode, Nodes } from "../../../link/index.ts";
import { isSame, type LiveBatch } from "../../logs/index.ts";
import { FleetFollowers, type FollowedFleet } from "../fleet-followers.ts";
import { endOfFlush, type LogRequest, readLogRequest, matchFlush, type MatchedFlush } from "../log-stream.ts";
import { Gaps } from "../record-sender.ts";
import { encodeHeader, NODE_HEADER } from "./node-request.ts";

export const FLEET_SHARE_PATH = "/nodes/fleet-logs";
/** The request with which another node asks for the logs of a fleet's robots on this node. It is sent in the header NODE_HEADER. */
interface ShareRequest extends FollowedFleet {
  /** Interval in ms at which to check which robots are in the fleet. */
  look_every_ms: number;
  /** Whether the other node accepts flushes (log messages) without matching records. These report the end position of a robot's log. */
  positions?: boolean;
}
/** Maximum bytes buffered for another node. If there are more, records are dropped and their number is reported as a gap. */
const SHARE_BYTES_MAX = 1024 * 1024;
/**
 * Interval at which flushes without matching records are sent. It is shorter than the interval at which the other node compares positions.
 */
const POSITIONS_EVERY_MS = 20_000;
/** The message that announces that all present robots are followed. The other node gets every record that is stored after it. */
export const SHARE_READY = "";

/** Encodes a flush for another node. The first line has all fields except the records, and each further line has one record, unchanged. */
export const encodeFlush = ({ lines, ...key }: MatchedFlush): string => `${JSON.stringify(key)}\n${lines.join("\n")}`;

export function decodeFlush(text: string): MatchedFlush {
  const [key = "", ...lines] = text.split("\n");
  const flush = JSON.parse(key) as Omit<MatchedFlush, "lines">;
  return { ...flush, lines: flush.seqs.length === 0 ? [] : lines };
}

/** Sends the logs of a fleet's robots on this node to other nodes. The other nodes have authenticated their viewers. */
export class FleetShares {
  readonly #plane: Plane;
  readonly #server = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: 1024 });

  constructor(plane: Plane) {
    this.#plane = plane;
  }

  /** Starts to send a fleet's logs to another node. Throws 400 if this version cannot read the request. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, asked: unknown, query: URLSearchParams): void {
    const { org_id, fleet_id, look_every_ms, positions = false } = (asked ?? {}) as Partial<ShareRequest>;
    if (typeof org_id !== "string" || typeof fleet_id !== "string" || typeof look_every_ms !== "number")
      throw badRequest("a server of another version requests a fleet's log in a format that this server does not support");
    const logs = readLogRequest(query, { id: fleet_id, plane: this.#plane });
    this.#server.handleUpgrade(request, socket, head, (ws) => {
      void new FleetShare(this.#plane, ws, socket, logs, { org_id, fleet_id, look_every_ms, positions }).start();
    });
  }

  close(): void {
    for (const ws of this.#server.clients) ws.terminate();
  }
}

class FleetShare {
  readonly #plane: Plane;
  readonly #ws: WebSocket;
  readonly #request: LogRequest;
  readonly #followers: FleetFollowers;
  readonly #every_ms: number;
  readonly #gaps = new Gaps();
  /**
   * For each robot, one flush without records that represents all unsent flushes without matching records. Its start is the end of the last
   * sent flush.
   */
  readonly #unmatched = new Map<string, MatchedFlush>();
  readonly #sends_positions: boolean;
  #positions: Timer | undefined;

  constructor(plane: Plane, ws: WebSocket, socket: Duplex, request: LogRequest, { look_every_ms, positions, ...fleet }: ShareRequest) {
    this.#plane = plane;
    this.#ws = ws;
    this.#request = request;
    this.#every_ms = look_every_ms;
    this.#sends_positions = positions === true;
    this.#followers = new FleetFollowers(plane, fleet, (batch) => this.#take(batch));
    ws.on("error", () => {}); // A close event follows.
    ws.once("close", () => {
      this.#positions?.cancel();
      this.#followers.end();
    });
    socket.on("drain", () => this.#sendGaps());
  }

  async start(): Promise<void> {
    try {
      await this.#followers.refresh();
    } catch (error) {
      this.#plane.log.warn({ err: error }, "could not read the robots of a fleet");
      return this.#ws.close(1011);
    }
    if (this.#ws.readyState !== this.#ws.OPEN) return this.#followers.end();
    this.#followers.every(this.#every_ms);
    this.#ws.send(SHARE_READY);
    if (this.#sends_positions) this.#positions = this.#plane.clock.every(POSITIONS_EVERY_MS, () => this.#sendPositions());
  }

  #take(batch: LiveBatch): void {
    const flush = this.#afterUnmatched(matchFlush(this.#request, batch));
    if (flush.lines.length === 0) return void this.#unmatched.set(flush.robot_id, flush);
    this.#unmatched.delete(flush.robot_id);
    if (this.#hasRoom()) this.#ws.send(encodeFlush(flush));
    else for (const seq of flush.seqs) this.#gaps.add(flush.robot_id, seq);
  }

  #hasRoom(): boolean {
    return this.#ws.bufferedAmount < SHARE_BYTES_MAX && this.#gaps.none;
  }

  /** Returns the flush. If unsent flushes without matching records directly precede it, the result starts at the first of those. */
  #afterUnmatched(flush: MatchedFlush): MatchedFlush {
    const unwanted = this.#unmatched.get(flush.robot_id);
    const follows = isSame(unwanted && endOfFlush(unwanted), flush.before);
    return follows && unwanted?.before !== undefined ? { ...flush, before: unwanted.before } : flush;
  }

  #sendPositions(): void {
    if (!this.#hasRoom()) return;
    for (const flush of this.#unmatched.values()) this.#ws.send(encodeFlush(flush));
    this.#unmatched.clear();
  }

  #sendGaps(): void {
    if (this.#gaps.none || this.#ws.readyState !== this.#ws.OPEN) return;
    for (const record of this.#gaps.take(wireTime(this.#plane.clock.now()))) {
      const { robot_id, received_at, seq } = record;
      this.#ws.send(encodeFlush({ robot_id, received_at, first_seq: seq, seqs: [seq], lines: [JSON.stringify(record)] }));
    }
  }
}

const OPEN_TIMEOUT_MS = 5_000;
/**
 * Maximum length of a message from another node. Such a message is not compressed, unlike a log message of a robot, which has at most 64
 * KiB.
 */
const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;

/** Receives the logs of a fleet's robots that are connected to other nodes. */
export class OtherShares {
  readonly #plane: Plane;
  readonly #nodes: Nodes;
  readonly #request: ShareRequest;
  readonly #query: string;
  readonly #take: (flush: MatchedFlush) => void;
  readonly #open = new Map<string, WebSocket>();
  #over = false;
  /** Whether a connection to a node ended since the last `refresh`. */
  #lost = false;

  constructor(plane: Plane, nodes: Nodes, asked: { request: ShareRequest; query: string }, take: (flush: MatchedFlush) => void) {
    this.#plane = plane;
    this.#nodes = nodes;
    this.#request = asked.request;
    this.#query = asked.query;
    this.#take = take;
  }

  /**
   * Connects to new nodes and disconnects from dead ones. Returns true if records may have been missed, because a node is new or
   * unreachable, or its connection ended. Must not run concurrently, because each call would connect to the same nodes.
   */
  async refresh(): Promise<boolean> {
    const lost = this.#lost;
    this.#lost = false;
    const nodes = new Map((await this.#nodes.others()).map((node) => [`${node.id} ${node.epoch}`, node]));
    for (const [key, ws] of this.#open) if (!nodes.has(key)) ws.terminate();
    const missing = [...nodes].filter(([key]) => !this.#open.has(key));
    const came = await Promise.all(missing.map(([key, node]) => this.#connect(key, node)));
    return lost || came.length > 0;
  }

  end(): void {
    this.#over = true;
    for (const ws of this.#open.values()) ws.terminate();
  }

  async #connect(key: string, node: KnownNode): Promise<void> {
    try {
      const socket = await this.#nodes.connect(node);
      const ws = new WebSocket(`ws://node${FLEET_SHARE_PATH}?${this.#query}`, {
        createConnection: () => socket,
        headers: { [NODE_HEADER]: encodeHeader(this.#request) },
        perMessageDeflate: false,
        maxPayload: MESSAGE_BYTES_MAX,
      });
      await this.#ready(ws);
      if (this.#over || ws.readyState !== ws.OPEN) return ws.terminate();
      this.#open.set(key, ws);
      ws.once("close", () => {
        this.#open.delete(key);
        this.#lost = true;
      });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#plane.log.warn({ node_id: node.id, address: node.address, reason }, "could not get a fleet's log from another server");
    }
  }

  /** Starts to receive flushes from another node. Resolves when that node has announced that it sends every further flush. */
  async #ready(ws: WebSocket): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const late = this.#plane.clock.setTimer(OPEN_TIMEOUT_MS, () => ws.terminate());
    ws.on("message", (data: Buffer) => {
      const text = data.toString("utf8");
      if (text === SHARE_READY) return resolve();
      try {
        this.#take(decodeFlush(text));
      } catch {
        // A server of another version sent a message that this one cannot parse.
        ws.terminate();
      }
    });
    ws.on("error", reject);
    ws.once("close", () => reject(new Error("closed the connection")));
    await promise.finally(() => late.cancel());
  }
}
