import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Timer } from "@roamfleet/clock";
import { CLOSE } from "@roamfleet/protocol";
import type { Plane } from "../../../context.ts";
import { httpError } from "../../../kernel/fault.ts";
import type { KnownNode, Nodes } from "../../../link/index.ts";
import type { Admitted } from "../admit.ts";
import { nodeOfRobot } from "../store.ts";
import { encodeAdmission, relayedTarget } from "./admission.ts";
import { askNode, NODE_HEADER, type NodeAnswer } from "./node-request.ts";
import { JoinedSockets } from "./joined-sockets.ts";

/** Interval of the check that closes relayed viewers whose serving node is dead. */
const CHECK_EVERY_MS = 3_000;

/** The upgrade request of a viewer. */
export interface UpgradeRequest {
  request: IncomingMessage;
  socket: Duplex;
  head: Buffer;
  /** The id of the request. It is replaced if a request to another node failed. */
  request_id: string;
}

/** Relays viewers whose robot is connected to another node. That node serves the stream, and this node forwards the bytes. */
export class Relays {
  readonly #plane: Plane;
  readonly #nodes: Nodes;
  readonly #open = new Map<JoinedSockets, KnownNode>();
  readonly #checks: Timer;
  #draining = false;

  constructor(plane: Plane, nodes: Nodes) {
    this.#plane = plane;
    this.#nodes = nodes;
    this.#checks = plane.clock.every(CHECK_EVERY_MS, () => this.#endLost());
  }

  /**
   * Relays a viewer to the node that its robot is connected to. Returns true once the viewer has its response. Returns false if the robot
   * is not connected to another node, or that node is unreachable; then the caller must serve the viewer. Throws the error that the client
   * gets.
   */
  async take(upgrade: UpgradeRequest, admitted: Admitted): Promise<boolean> {
    const node = await this.#nodeOf(admitted);
    if (node === undefined) return false;
    const answer = await this.#ask(node, upgrade, admitted);
    if (answer === undefined) return false;
    const { socket } = upgrade;
    if (!answer.upgraded) {
      socket.once("finish", () => socket.destroy());
      socket.end(answer.response);
      return true;
    }
    if (this.#draining || socket.destroyed) {
      answer.socket.destroy();
      if (this.#draining) throw httpError(503, "the server is stopping", { "retry-after": "5" });
      return true;
    }
    this.#join(node, upgrade, answer);
    return true;
  }

  /** Closes all relayed viewers. Resolves when their connections are closed. */
  async drain(): Promise<void> {
    this.#draining = true;
    this.#checks.cancel();
    const open = [...this.#open.keys()];
    for (const joined of open) joined.end(CLOSE.draining, "the server is stopping");
    await Promise.all(open.map(({ ended }) => ended));
  }

  #join(node: KnownNode, { socket, head }: UpgradeRequest, answer: NodeAnswer & { upgraded: true }): void {
    const { metrics, clock } = this.#plane;
    // Set the same socket options as the WebSocket library: send small messages without delay, and no idle timeout.
    (socket as Socket).setTimeout(0);
    (socket as Socket).setNoDelay(true);
    socket.write(answer.lines, "latin1");
    if (head.length > 0) socket.unshift(head);
    const joined = new JoinedSockets({ viewer: socket, node: answer.socket, head: answer.head }, clock);
    this.#open.set(joined, node);
    metrics.streams_relayed.set(this.#open.size);
    void joined.ended.then(() => {
      this.#open.delete(joined);
      metrics.streams_relayed.set(this.#open.size);
    });
  }

  async #nodeOf({ kind, robot_id, caller }: Admitted): Promise<KnownNode | undefined> {
    const { db, link, node } = this.#plane;
    if (kind.of !== "robot" || link.session(robot_id)?.org_id === caller.org_id) return undefined;
    const at = await nodeOfRobot(db.forOrg(caller.org_id), caller.org_id, robot_id);
    if (at === undefined || (at.node_id === node.id && at.node_epoch === node.epoch)) return undefined;
    const others = await this.#nodes.others();
    return others.find(({ id, epoch }) => id === at.node_id && epoch === at.node_epoch);
  }

  async #ask(node: KnownNode, upgrade: UpgradeRequest, admitted: Admitted): Promise<NodeAnswer | undefined> {
    const { clock, log, id } = this.#plane;
    const { request, request_id } = upgrade;
    const headers = { ...passedOn(request), host: node.address, [NODE_HEADER]: encodeAdmission(admitted, request_id) };
    try {
      const socket = await this.#nodes.connect(node);
      return await askNode(socket, { path: relayedTarget(this.#plane, request, admitted.robot_id), headers }, clock);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      log.warn({ node_id: node.id, address: node.address, reason, request_id }, "could not open a stream on the server of its robot");
      // Use a new id, because the other node may already have stored an open stream under the old one.
      upgrade.request_id = id("req");
      return undefined;
    }
  }

  /** Closes relayed viewers whose serving node is dead. A frozen or unreachable node does not close its connections itself. */
  async #endLost(): Promise<void> {
    if (this.#open.size === 0) return;
    for (const joined of this.#open.keys()) joined.cutStuck();
    let living: Set<string>;
    try {
      living = new Set((await this.#nodes.others()).map(keyOf));
    } catch {
      // If the database is unreachable, the other nodes may still be alive: keep the viewers.
      return;
    }
    for (const [joined, node] of this.#open) if (!living.has(keyOf(node))) joined.end(CLOSE.draining, "the robot's server is unreachable");
  }
}

const keyOf = ({ id, epoch }: KnownNode): string => `${id} ${epoch}`;

/** Returns the headers of a viewer that are forwarded to the serving node. */
function passedOn({ headers }: IncomingMessage): Record<string, string> {
  const passed = Object.entries(headers).flatMap(([name, value]) =>
    typeof value === "string" && (name.startsWith("sec-websocket-") || name === "user-agent") ? [[name, value] as const] : [],
  );
  return Object.fromEntries(passed);
}
