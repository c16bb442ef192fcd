import { WebSocket } from "ws";
import type { Plane } from "../../../context.ts";
import type { KnownNode, Nodes } from "../../../link/index.ts";
import type { WantedFlush } from "../log-stream.ts";
import { decodeFlush, FLEET_SHARE_PATH, SHARE_READY, type ShareWish } from "./fleet-share.ts";
import { encodeHeader, NODE_HEADER } from "./header.ts";

const OPEN_TIMEOUT_MS = 5_000;
/** Longest message of another node. A robot's message has at most 64 KiB, which may be compressed. */
const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;

/** Follows the logs of a fleet's robots that are connected to other nodes. */
export class OtherShares {
  readonly #plane: Plane;
  readonly #nodes: Nodes;
  readonly #wish: ShareWish;
  readonly #query: string;
  readonly #take: (flush: WantedFlush) => void;
  readonly #open = new Map<string, WebSocket>();
  #over = false;
  /** Whether a connection to a node ended since the last `look`. */
  #lost = false;

  constructor(plane: Plane, nodes: Nodes, asked: { wish: ShareWish; query: string }, take: (flush: WantedFlush) => void) {
    this.#plane = plane;
    this.#nodes = nodes;
    this.#wish = asked.wish;
    this.#query = asked.query;
    this.#take = take;
  }

  /**
   * Connects to new nodes and disconnects from dead ones. Returns whether records may be missing, because a node is new, lost or
   * unreachable. Must not run concurrently, as each call would connect to the same nodes.
   */
  async look(): Promise<boolean> {
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
        headers: { [NODE_HEADER]: encodeHeader(this.#wish) },
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

  /** Resolves when all further flushes are received. */
  async #ready(ws: WebSocket): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const late = this.#plane.clock.setTimer(OPEN_TIMEOUT_MS, () => ws.terminate());
    ws.on("message", (data: Buffer) => {
      const text = data.toString("utf8");
      if (text === SHARE_READY) return resolve();
      try {
        this.#take(decodeFlush(text));
      } catch {
        // A message of another version.
        ws.terminate();
      }
    });
    ws.on("error", reject);
    ws.once("close", () => reject(new Error("closed the connection")));
    await promise.finally(() => late.cancel());
  }
}
