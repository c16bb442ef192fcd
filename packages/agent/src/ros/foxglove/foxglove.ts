import type { Clock } from "@roamfleet/clock";
import { errorText } from "../../disk/write-atomically.ts";
import { type FindRosAdapter, type RosAdapter, type RosMessage, type RosTopic, UndecodedMessage } from "../adapter.ts";
import { LazyMessage } from "../lazy-message.ts";
import type { RosSettings } from "../settings.ts";
import { RosSocket } from "../web-socket.ts";
import { type Decode, decoderOf, type FoxgloveChannel, readChannel } from "./channel.ts";

export const FOXGLOVE_URL = "ws://127.0.0.1:8765";

/** The framing is the same in both; foxglove_bridge 3 and later accepts only the first, earlier ones only the second. */
const SUBPROTOCOLS = ["foxglove.sdk.v1", "foxglove.websocket.v1"];
const SERVER_INFO_MS_MAX = 3_000;
/** After the opcode: the subscription's id (uint32), the log time (uint64, ns), the message. */
const MESSAGE_DATA = 1;
const MESSAGE_DATA_HEADER_BYTES = 13;
/** A robot has hundreds; further ones are ignored. */
const CHANNELS_MAX = 10_000;
const GRAPH_ENTRIES_MAX = 50_000;
const NS_PER_MS = 1_000_000n;

interface ServerInfo {
  capabilities: string[];
  distro: string | null;
}

interface Subscription {
  topic: string;
  on: (message: RosMessage) => void;
  /** Undefined while the topic has no publisher. */
  channel: FoxgloveChannel | undefined;
  decode: Decode | undefined;
}

/** Finds foxglove_bridge, or another server with its protocol, by WebSocket. */
export const findFoxglove: FindRosAdapter = async ({ settings, clock, signal }) => {
  const adapter = new FoxgloveAdapter(clock, settings);
  return (await adapter.connect(settings.foxglove_url ?? FOXGLOVE_URL, signal)) ? adapter : undefined;
};

class FoxgloveAdapter implements RosAdapter {
  readonly name = "foxglove";
  distro: string | null;
  readonly gone: Promise<string>;
  readonly #clock: Clock;
  readonly #channels = new Map<number, FoxgloveChannel>();
  readonly #subscriptions = new Map<number, Subscription>();
  readonly #nodes_of = new Map<string, Set<string>>();
  readonly #info = Promise.withResolvers<ServerInfo>();
  readonly #gone = Promise.withResolvers<string>();
  #socket: RosSocket | undefined;
  #subscription_id = 0;

  constructor(clock: Clock, settings: RosSettings) {
    this.#clock = clock;
    this.distro = settings.distro ?? null;
    this.gone = this.#gone.promise;
  }

  /** Returns false if there is no such server. */
  async connect(url: string, signal: AbortSignal): Promise<boolean> {
    const clock = this.#clock;
    const socket = await RosSocket.open({ url, protocols: SUBPROTOCOLS, clock, signal, on: (data, binary) => this.#take(data, binary) });
    if (socket === undefined) return false;
    this.#socket = socket;
    void socket.gone.then((reason) => this.#gone.resolve(reason));
    const info = await this.#withinTime(this.#info.promise, signal);
    if (info === undefined) {
      await socket.close();
      return false;
    }
    this.distro = info.distro ?? this.distro;
    if (info.capabilities.includes("connectionGraph")) socket.send({ op: "subscribeConnectionGraph" });
    return true;
  }

  nodes(): string[] {
    return [...new Set([...this.#nodes_of.values()].flatMap((nodes) => [...nodes]))];
  }

  topics(): RosTopic[] {
    return [...new Map([...this.#channels.values()].map(({ topic, schema_name }) => [topic, { name: topic, type: schema_name }])).values()];
  }

  async subscribe(topic: string, on: (message: RosMessage) => void): Promise<() => void> {
    const id = (this.#subscription_id += 1);
    this.#subscriptions.set(id, { topic, on, channel: undefined, decode: undefined });
    const channel = [...this.#channels.values()].find((one) => one.topic === topic);
    if (channel !== undefined) await this.#begin(id, channel);
    return () => {
      const subscription = this.#subscriptions.get(id);
      this.#subscriptions.delete(id);
      if (subscription?.channel !== undefined) this.#socket?.send({ op: "unsubscribe", subscriptionIds: [id] });
    };
  }

  async close(): Promise<void> {
    this.#subscriptions.clear();
    await this.#socket?.close();
    this.#gone.resolve("it was closed");
  }

  async #withinTime<T>(answer: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
    const done = new AbortController();
    const late = this.#clock.sleep(SERVER_INFO_MS_MAX, AbortSignal.any([done.signal, signal])).then(() => undefined);
    try {
      return await Promise.race([answer, late, this.gone.then(() => undefined)]);
    } finally {
      done.abort();
    }
  }

  async #begin(id: number, channel: FoxgloveChannel): Promise<void> {
    const subscription = this.#subscriptions.get(id);
    if (subscription === undefined || subscription.channel !== undefined) return;
    subscription.channel = channel;
    const reason = (error: unknown) => `its definition cannot be read (${errorText(error)})`;
    const decode = await decoderOf(channel).catch(
      (error: unknown): Decode =>
        (bytes) =>
          new UndecodedMessage(bytes, reason(error)),
    );
    // The subscription may have ended meanwhile, or the channel may be gone.
    if (this.#subscriptions.get(id) !== subscription || subscription.channel !== channel) return;
    subscription.decode = decode;
    this.#socket?.send({ op: "subscribe", subscriptions: [{ id, channelId: channel.id }] });
  }

  #take(data: Buffer, binary: boolean): void {
    if (binary) return this.#takeMessage(data);
    const message = readJson(data);
    if (message?.["op"] === "serverInfo") this.#info.resolve(readServerInfo(message));
    else if (message?.["op"] === "advertise") this.#advertise(listOf(message["channels"]));
    else if (message?.["op"] === "unadvertise") this.#unadvertise(listOf(message["channelIds"]));
    else if (message?.["op"] === "connectionGraphUpdate") this.#takeGraph(message);
  }

  #takeMessage(data: Buffer): void {
    if (data[0] !== MESSAGE_DATA || data.length < MESSAGE_DATA_HEADER_BYTES) return;
    const subscription = this.#subscriptions.get(data.readUInt32LE(1));
    if (subscription?.channel === undefined || subscription.decode === undefined) return;
    const logged_ms = Number(data.readBigUInt64LE(5) / NS_PER_MS);
    const at = this.#clock.now();
    if (logged_ms > 0) at.setTime(logged_ms);
    subscription.on(new LazyMessage(subscription.channel.schema_name, at, data.subarray(MESSAGE_DATA_HEADER_BYTES), subscription.decode));
  }

  #advertise(channels: unknown[]): void {
    for (const value of channels) {
      const channel = readChannel(value);
      if (channel === undefined || this.#channels.size >= CHANNELS_MAX) continue;
      this.#channels.set(channel.id, channel);
      for (const [id, { topic, channel: current }] of this.#subscriptions) {
        if (topic === channel.topic && current === undefined) void this.#begin(id, channel);
      }
    }
  }

  #unadvertise(ids: unknown[]): void {
    for (const id of ids) {
      if (typeof id !== "number") continue;
      this.#channels.delete(id);
      for (const [subscription_id, subscription] of this.#subscriptions) {
        if (subscription.channel?.id !== id) continue;
        subscription.channel = undefined;
        subscription.decode = undefined;
        const other = [...this.#channels.values()].find(({ topic }) => topic === subscription.topic);
        if (other !== undefined) void this.#begin(subscription_id, other);
      }
    }
  }

  /** Updates the connection graph: publishers, subscribers and services. It is the only source of node names. */
  #takeGraph(update: Record<string, unknown>): void {
    for (const [list, ids] of [
      ["publishedTopics", "publisherIds"],
      ["subscribedTopics", "subscriberIds"],
      ["advertisedServices", "providerIds"],
    ] as const) {
      for (const entry of listOf(update[list])) {
        if (typeof entry !== "object" || entry === null || this.#nodes_of.size >= GRAPH_ENTRIES_MAX) continue;
        const { name, [ids]: nodes } = entry as Record<string, unknown>;
        this.#nodes_of.set(`${list} ${String(name)}`, new Set(listOf(nodes).filter((node) => typeof node === "string")));
      }
    }
    for (const name of listOf(update["removedTopics"])) {
      this.#nodes_of.delete(`publishedTopics ${String(name)}`);
      this.#nodes_of.delete(`subscribedTopics ${String(name)}`);
    }
    for (const name of listOf(update["removedServices"])) this.#nodes_of.delete(`advertisedServices ${String(name)}`);
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

function readServerInfo({ capabilities, metadata }: Record<string, unknown>): ServerInfo {
  const said: unknown = typeof metadata === "object" && metadata !== null ? Reflect.get(metadata, "ROS_DISTRO") : undefined;
  return {
    capabilities: listOf(capabilities).filter((one) => typeof one === "string"),
    distro: typeof said === "string" && said !== "" ? said : null,
  };
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
