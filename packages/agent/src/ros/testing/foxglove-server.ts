import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { type WebSocket, WebSocketServer } from "ws";

const SUBPROTOCOL = "foxglove.sdk.v1";
const MESSAGE_DATA = 1;

interface FoxgloveTopic {
  id: number;
  topic: string;
  schemaName: string;
}

/** A small Foxglove server with topics in JSON. */
export class FoxgloveServer {
  readonly url: string;
  /**
   * Current subscriptions of clients: the connection, the subscription's id and the channel's id.
   */
  readonly subscriptions = new Set<{ socket: WebSocket; id: number; channelId: number }>();
  readonly #server: WebSocketServer;

  private constructor(server: WebSocketServer, topics: readonly FoxgloveTopic[], distro: string) {
    this.#server = server;
    this.url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("connection", (socket) => {
      socket.on("message", (data: Buffer) => this.#take(socket, JSON.parse(data.toString()) as Record<string, unknown>));
      socket.send(JSON.stringify({ op: "serverInfo", name: "test", capabilities: [], metadata: { ROS_DISTRO: distro } }));
      socket.send(JSON.stringify({ op: "advertise", channels: topics.map((one) => ({ ...one, encoding: "json", schema: "" })) }));
    });
  }

  static async start(t: Pick<TestContext, "after">, topics: readonly FoxgloveTopic[], distro: string): Promise<FoxgloveServer> {
    const server = new WebSocketServer({ host: "127.0.0.1", port: 0, handleProtocols: () => SUBPROTOCOL });
    const foxglove = once(server, "listening").then(() => new FoxgloveServer(server, topics, distro));
    t.after(() => foxglove.then((started) => started.stop()));
    return foxglove;
  }

  publish(channel: number, message: unknown): void {
    for (const { socket, id, channelId } of this.subscriptions) {
      if (channelId !== channel) continue;
      const header = Buffer.alloc(13);
      header.writeUInt8(MESSAGE_DATA, 0);
      header.writeUInt32LE(id, 1);
      header.writeBigUInt64LE(BigInt(Date.now()) * 1_000_000n, 5);
      socket.send(Buffer.concat([header, Buffer.from(JSON.stringify(message))]));
    }
  }

  stop(): void {
    for (const client of this.#server.clients) client.terminate();
    this.#server.close();
  }

  #take(socket: WebSocket, { op, subscriptions, subscriptionIds }: Record<string, unknown>): void {
    if (op === "subscribe")
      for (const one of subscriptions as { id: number; channelId: number }[]) this.subscriptions.add({ socket, ...one });
    if (op === "unsubscribe")
      for (const one of this.subscriptions)
        if (one.socket === socket && (subscriptionIds as number[]).includes(one.id)) this.subscriptions.delete(one);
  }
}
