import { type Clock } from "@roamfleet/clock";
import type { MessageReader as Ros2Reader } from "@foxglove/rosmsg2-serialization";
import type { Message, Root } from "protobufjs";
import { errorText } from "../../disk/write-atomically.ts";
import { fieldsOf, listOf, parseObject, textsOf } from "../../json.ts";
import {
  type Decode,
  type FindRosAdapter,
  LazyMessage,
  type RosAdapter,
  type RosMessage,
  type RosTopic,
  UndecodedMessage,
} from "../adapter.ts";
import type { RosSettings } from "../settings.ts";
import { RosSocket } from "../web-socket.ts";

/**
 * WebSocket subprotocols. foxglove_bridge 3 and later accepts only the first, earlier versions only the second. Both use the same message
 * format.
 */
const SUBPROTOCOLS = ["foxglove.sdk.v1", "foxglove.websocket.v1"];
const SERVER_INFO_MS_MAX = 3_000;
/** Opcode of a message frame. The opcode is followed by the subscription's id (uint32), the log time in ns (uint64) and the message. */
const MESSAGE_DATA = 1;
const MESSAGE_DATA_HEADER_BYTES = 13;
/** Maximum channels; further ones are ignored. A robot has hundreds. */
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
  /** The server's channel for the topic; undefined while the topic has no publisher. */
  channel: FoxgloveChannel | undefined;
  decode: Decode | undefined;
}

/** Connects to a WebSocket server with the Foxglove protocol, such as foxglove_bridge. */
export const findFoxglove: FindRosAdapter = async ({ settings, clock, signal }) => {
  const adapter = new FoxgloveAdapter(clock, settings);
  return (await adapter.connect(settings.foxglove_url, signal)) ? adapter : undefined;
};

class FoxgloveAdapter implements RosAdapter {
  readonly name = "foxglove";
  distro: string | null;
  readonly #clock: Clock;
  readonly #channels = new Map<number, FoxgloveChannel>();
  readonly #subscriptions = new Map<number, Subscription>();
  readonly #nodes_of = new Map<string, Set<string>>();
  readonly #info = Promise.withResolvers<ServerInfo>();
  readonly #gone = Promise.withResolvers<string>();
  readonly gone = this.#gone.promise;
  #socket: RosSocket | undefined;
  #subscription_id = 0;

  constructor(clock: Clock, settings: RosSettings) {
    this.#clock = clock;
    this.distro = settings.distro ?? null;
  }

  /** Connects to the server. Returns false if no Foxglove server answers at the address. */
  async connect(url: string, signal: AbortSignal): Promise<boolean> {
    const clock = this.#clock;
    const socket = await RosSocket.open({ url, protocols: SUBPROTOCOLS, clock, signal, on: (data, binary) => this.#take(data, binary) });
    if (socket === undefined) return false;
    this.#socket = socket;
    void socket.gone.then((reason) => this.#gone.resolve(reason));
    const done = new AbortController();
    const info = await Promise.race([
      this.#info.promise,
      this.gone,
      clock.sleep(SERVER_INFO_MS_MAX, AbortSignal.any([done.signal, signal])),
    ]);
    done.abort();
    if (typeof info !== "object") {
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
    this.#gone.resolve("the adapter was closed");
  }

  async #begin(id: number, channel: FoxgloveChannel): Promise<void> {
    const subscription = this.#subscriptions.get(id);
    if (subscription === undefined || subscription.channel !== undefined) return;
    subscription.channel = channel;
    const reason = (error: unknown) => `the definition of the message type cannot be read (${errorText(error)})`;
    const decode = await decoderOf(channel).catch(
      (error: unknown): Decode =>
        (bytes) =>
          new UndecodedMessage(bytes, reason(error)),
    );
    // While the decoder was loaded, the subscription or the channel may have ended.
    if (this.#subscriptions.get(id) !== subscription || subscription.channel !== channel) return;
    subscription.decode = decode;
    this.#socket?.send({ op: "subscribe", subscriptions: [{ id, channelId: channel.id }] });
  }

  #take(data: Buffer, binary: boolean): void {
    if (binary) return this.#takeMessage(data);
    const message = parseObject(data.toString("utf8"));
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

  /** Updates the graph of publishers, subscribers and services. Foxglove has no other source of node names. */
  #takeGraph(update: Record<string, unknown>): void {
    for (const [list, ids] of [
      ["publishedTopics", "publisherIds"],
      ["subscribedTopics", "subscriberIds"],
      ["advertisedServices", "providerIds"],
    ] as const) {
      for (const entry of listOf(update[list])) {
        const { name, [ids]: nodes } = fieldsOf(entry);
        if (typeof name !== "string" || this.#nodes_of.size >= GRAPH_ENTRIES_MAX) continue;
        this.#nodes_of.set(`${list} ${name}`, new Set(textsOf(nodes)));
      }
    }
    for (const name of listOf(update["removedTopics"])) {
      this.#nodes_of.delete(`publishedTopics ${String(name)}`);
      this.#nodes_of.delete(`subscribedTopics ${String(name)}`);
    }
    for (const name of listOf(update["removedServices"])) this.#nodes_of.delete(`advertisedServices ${String(name)}`);
  }
}

function readServerInfo({ capabilities, metadata }: Record<string, unknown>): ServerInfo {
  const { ROS_DISTRO: distro } = fieldsOf(metadata);
  return { capabilities: textsOf(capabilities), distro: typeof distro === "string" && distro !== "" ? distro : null };
}

interface FoxgloveChannel {
  id: number;
  topic: string;
  /** Encoding of the messages: `cdr`, `ros1`, `json`, … */
  encoding: string;
  schema_name: string;
  schema: string;
  /** Encoding of the schema. Old servers do not send it; then it is derived from `encoding`. */
  schema_encoding: string | undefined;
}

/** Parses one channel of an `advertise` message. Returns undefined if it is invalid. */
function readChannel(value: unknown): FoxgloveChannel | undefined {
  const { id, topic, encoding, schemaName, schema, schemaEncoding } = fieldsOf(value);
  if (typeof id !== "number" || typeof topic !== "string" || typeof encoding !== "string") return undefined;
  return {
    id,
    topic,
    encoding,
    schema_name: typeof schemaName === "string" ? schemaName : "",
    schema: typeof schema === "string" ? schema : "",
    schema_encoding: typeof schemaEncoding === "string" && schemaEncoding !== "" ? schemaEncoding : undefined,
  };
}

/** Returns the decoder of a channel. If the channel's encoding is not supported, each message becomes an UndecodedMessage. */
async function decoderOf(channel: FoxgloveChannel): Promise<Decode> {
  const { encoding, schema, schema_encoding } = channel;
  const wanted = `${encoding}+${schema_encoding ?? { cdr: "ros2msg", ros1: "ros1msg", protobuf: "protobuf" }[encoding] ?? ""}`;
  switch (wanted) {
    case "cdr+ros2msg":
      return ros2Decoder((await import("@foxglove/rosmsg")).parse(schema, { ros2: true }));
    case "cdr+ros2idl":
      return ros2Decoder((await import("@foxglove/ros2idl-parser")).parseRos2idl(schema));
    case "protobuf+protobuf":
      return protobufDecoder(channel);
    case "ros1+ros1msg": {
      const [{ parse }, { MessageReader }] = await Promise.all([import("@foxglove/rosmsg"), import("@foxglove/rosmsg-serialization")]);
      const reader = new MessageReader(parse(schema));
      return (bytes) => reader.readMessage(bytes);
    }
  }
  if (encoding === "json") return (bytes) => JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8"));
  const what = schema_encoding === undefined ? encoding : `${encoding} with a schema in ${schema_encoding}`;
  return (bytes) => new UndecodedMessage(bytes, `messages in ${what} are not supported`);
}

async function ros2Decoder(definitions: ConstructorParameters<typeof Ros2Reader>[0]): Promise<Decode> {
  const { MessageReader } = await import("@foxglove/rosmsg2-serialization");
  const reader = new MessageReader(definitions);
  return (bytes) => reader.readMessage(bytes);
}

/**
 * Returns a decoder for the protobuf messages of a channel. The channel's schema is a FileDescriptorSet in Base64. As in protobuf's JSON,
 * 64-bit integers are strings, enums are names, and unset fields have their defaults. Throws if the schema is invalid or lacks the type.
 */
async function protobufDecoder({ schema, schema_name }: FoxgloveChannel): Promise<Decode> {
  const [{ default: protobuf }, { default: descriptor }] = await Promise.all([
    import("protobufjs"),
    import("protobufjs/ext/descriptor/index.js"),
  ]);
  const set = descriptor.FileDescriptorSet.decode(Buffer.from(schema, "base64"));
  const root = (protobuf.Root as unknown as { fromDescriptor(set: Message): Root }).fromDescriptor(set);
  const type = root.lookupType(schema_name);
  return (bytes) => type.toObject(type.decode(bytes), { longs: String, enums: String, defaults: true });
}
