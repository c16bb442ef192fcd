import type { Clock } from "@roamfleet/clock";
import { backoffMs } from "../../link/backoff.ts";
import type { FindRosAdapter, RosAdapter, RosMessage, RosTopic } from "../adapter.ts";
import { LazyMessage } from "../lazy-message.ts";
import type { RosSettings } from "../settings.ts";
import { RosSocket } from "../web-socket.ts";
import { type ByteFields, readByteFields, withBytes } from "./byte-fields.ts";
import { Calls } from "./calls.ts";

export const ROSBRIDGE_URL = "ws://127.0.0.1:9090";

interface Subscription {
  id: string;
  topic: string;
  on: (message: RosMessage) => void;
  type: string;
  bytes: ByteFields;
  /** Aborted when the last listener has left. */
  over: AbortController;
}

/** Finds rosbridge_server, protocol version 2, by WebSocket; topics and nodes come from rosapi if it runs. */
export const findRosbridge: FindRosAdapter = async ({ settings, clock, signal }) => {
  const adapter = new RosbridgeAdapter(clock, settings);
  return (await adapter.connect(settings.rosbridge_url ?? ROSBRIDGE_URL, signal)) ? adapter : undefined;
};

class RosbridgeAdapter implements RosAdapter {
  readonly name = "rosbridge";
  distro: string | null;
  readonly gone: Promise<string>;
  readonly #clock: Clock;
  readonly #calls: Calls;
  readonly #subscriptions = new Map<string, Subscription>();
  readonly #gone = Promise.withResolvers<string>();
  #socket: RosSocket | undefined;
  #subscription_id = 0;
  /** Prefix of rosapi's services on this server. */
  #prefix = "/rosapi/";

  constructor(clock: Clock, settings: RosSettings) {
    this.#clock = clock;
    this.distro = settings.distro ?? null;
    this.gone = this.#gone.promise;
    this.#calls = new Calls(clock, (value) => this.#socket?.send(value));
  }

  /** Returns false if there is no such server. */
  async connect(url: string, signal: AbortSignal): Promise<boolean> {
    const socket = await RosSocket.open({ url, protocols: [], clock: this.#clock, signal, on: (data, binary) => this.#take(data, binary) });
    if (socket === undefined) return false;
    this.#socket = socket;
    void socket.gone.then((reason) => {
      this.#gone.resolve(reason);
      this.#calls.end();
    });
    if (await this.#isRosbridge()) return true;
    await socket.close();
    return false;
  }

  async nodes(): Promise<string[]> {
    return texts((await this.#ask("nodes", {}))?.["nodes"]);
  }

  async topics(): Promise<RosTopic[]> {
    const answer = await this.#ask("topics", {});
    const types = texts(answer?.["types"]);
    return texts(answer?.["topics"]).map((name, index) => ({ name, type: types[index] ?? "" }));
  }

  subscribe(topic: string, on: (message: RosMessage) => void): Promise<() => void> {
    const id = `subscribe:${(this.#subscription_id += 1)}`;
    const subscription: Subscription = { id, topic, on, type: "", bytes: new Map(), over: new AbortController() };
    this.#subscriptions.set(id, subscription);
    void this.#begin(subscription);
    return Promise.resolve(() => {
      if (!this.#subscriptions.delete(id)) return;
      subscription.over.abort();
      this.#socket?.send({ op: "unsubscribe", id, topic });
    });
  }

  async close(): Promise<void> {
    for (const { over } of this.#subscriptions.values()) over.abort();
    this.#subscriptions.clear();
    await this.#socket?.close();
    this.#calls.end();
    this.#gone.resolve("it was closed");
  }

  /** Returns whether the server answers a call, even with "no such service". Some servers have rosapi's services only without the leading slash. */
  async #isRosbridge(): Promise<boolean> {
    let answered = false;
    for (const prefix of ["/rosapi/", "rosapi/"]) {
      const answer = await this.#calls.call(`${prefix}topics`, {});
      answered ||= answer !== undefined;
      if (answer?.ok !== true) continue;
      this.#prefix = prefix;
      const version = await this.#ask("get_ros_version", {});
      const distro = version?.["distro"];
      if (typeof distro === "string" && distro !== "") this.distro = distro;
      return true;
    }
    return answered;
  }

  async #ask(service: string, args: Record<string, unknown>): Promise<Record<string, unknown> | undefined> {
    const answer = await this.#calls.call(`${this.#prefix}${service}`, args);
    return answer?.ok === true ? answer.values : undefined;
  }

  /** Subscribes once the topic is published: rosbridge refuses a topic that has no type yet. */
  async #begin(subscription: Subscription): Promise<void> {
    const { id, topic, over } = subscription;
    for (let tries = 0; !over.signal.aborted; tries += 1) {
      const type = (await this.topics()).find(({ name }) => name === topic)?.type;
      if (type !== undefined && type !== "") {
        subscription.type = type;
        const details = await this.#ask("message_details", { type });
        subscription.bytes = readByteFields(type, details?.["typedefs"]);
        if (over.signal.aborted) return;
        return this.#socket?.send({ op: "subscribe", id, topic, type, queue_length: 1, compression: "none" });
      }
      await this.#clock.sleep(backoffMs(this.#clock, Math.min(tries, 3)), over.signal);
    }
  }

  #take(data: Buffer, binary: boolean): void {
    if (binary) return;
    const message = readJson(data);
    if (message?.["op"] === "service_response") this.#calls.take(message);
    else if (message?.["op"] === "publish") this.#publish(String(message["topic"]), message["msg"]);
  }

  #publish(topic: string, message: unknown): void {
    for (const subscription of this.#subscriptions.values()) {
      if (subscription.topic !== topic) continue;
      const { type, bytes } = subscription;
      subscription.on(new LazyMessage(type, this.#clock.now(), new Uint8Array(), () => withBytes(message, bytes)));
    }
  }
}

function readJson(data: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(data.toString("utf8"));
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
