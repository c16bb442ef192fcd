import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { type WebSocket, WebSocketServer } from "ws";

interface ServedTopic {
  type: string;
  typedefs: unknown[];
}

/** A small server with rosbridge's protocol, version 2, and the services of rosapi. The tests verify it with roslib. */
export class RosbridgeServer {
  readonly url: string;
  readonly topics = new Map<string, ServedTopic>();
  readonly nodes: string[] = [];
  /** Current subscriptions of clients: connection, id and topic. */
  readonly subscriptions = new Set<{ socket: WebSocket; id: unknown; topic: unknown }>();
  readonly #server: WebSocketServer;

  private constructor(server: WebSocketServer, service_prefix: string | undefined) {
    this.#server = server;
    this.url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("connection", (socket) => {
      socket.on("message", (data: Buffer) => this.#take(socket, JSON.parse(data.toString()) as Record<string, unknown>, service_prefix));
      socket.on("close", () => this.#forget(({ socket: of }) => of === socket));
    });
  }

  /** `service_prefix` is the prefix of rosapi's services, `/rosapi/` or `rosapi/`; without it there is no rosapi. */
  static async start(t: Pick<TestContext, "after">, service_prefix?: string): Promise<RosbridgeServer> {
    const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
    t.after(() => {
      for (const client of server.clients) client.terminate();
      server.close();
    });
    await once(server, "listening");
    return new RosbridgeServer(server, service_prefix);
  }

  publish(topic: string, msg: unknown): void {
    const sockets = new Set([...this.subscriptions].filter((one) => one.topic === topic).map(({ socket }) => socket));
    for (const socket of sockets) socket.send(JSON.stringify({ op: "publish", topic, msg }));
  }

  drop(): void {
    for (const client of this.#server.clients) client.close(1001);
  }

  #take(socket: WebSocket, message: Record<string, unknown>, prefix: string | undefined): void {
    const { op, id, topic, service, args } = message;
    if (op === "subscribe" && !this.topics.has(String(topic))) {
      const msg = `Cannot infer topic type for topic ${String(topic)} as it is not yet advertised`;
      return socket.send(JSON.stringify({ op: "status", level: "error", msg, id }));
    }
    if (op === "subscribe") this.subscriptions.add({ socket, id, topic });
    if (op === "unsubscribe") this.#forget((one) => one.socket === socket && one.topic === topic && (id === undefined || one.id === id));
    if (op !== "call_service") return;
    const values = prefix === undefined ? undefined : this.#answer(String(service), prefix, (args ?? {}) as Record<string, unknown>);
    const answer = values === undefined ? { values: `Service ${String(service)} does not exist`, result: false } : { values, result: true };
    socket.send(JSON.stringify({ op: "service_response", id, service, ...answer }));
  }

  #answer(service: string, prefix: string, { type }: Record<string, unknown>): unknown {
    if (service === `${prefix}topics`) return { topics: [...this.topics.keys()], types: [...this.topics.values()].map((one) => one.type) };
    if (service === `${prefix}nodes`) return { nodes: this.nodes };
    if (service === `${prefix}get_ros_version`) return { version: 2, distro: "humble" };
    if (service === `${prefix}message_details`)
      return { typedefs: [...this.topics.values()].find((one) => one.type === type)?.typedefs ?? [] };
    return undefined;
  }

  #forget(which: (one: { socket: WebSocket; id: unknown; topic: unknown }) => boolean): void {
    for (const one of this.subscriptions) if (which(one)) this.subscriptions.delete(one);
  }
}
