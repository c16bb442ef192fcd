import type { Clock } from "@roamfleet/clock";
import { backoffMs } from "../../link/backoff.ts";
import { fieldsOf, listOf, parseObject, textsOf } from "../../json.ts";
import { type FindRosAdapter, LazyMessage, type RosAdapter, type RosMessage, type RosTopic } from "../adapter.ts";
import type { RosSettings } from "../settings.ts";
import { RosSocket } from "../web-socket.ts";

interface Subscription {
  id: string;
  topic: string;
  on: (message: RosMessage) => void;
  type: string;
  bytes: ByteFields;
  /** Aborted when the last listener of the topic was removed. */
  over: AbortController;
}

/** Connects to a rosbridge_server (protocol version 2) by WebSocket. Topic and node lists require that rosapi runs on the server, too. */
export const findRosbridge: FindRosAdapter = async ({ settings, clock, signal }) => {
  const adapter = new RosbridgeAdapter(clock, settings);
  return (await adapter.connect(settings.rosbridge_url, signal)) ? adapter : undefined;
};

class RosbridgeAdapter implements RosAdapter {
  readonly name = "rosbridge";
  distro: string | null;
  readonly #clock: Clock;
  readonly #calls: Calls;
  readonly #subscriptions = new Map<string, Subscription>();
  readonly #gone = Promise.withResolvers<string>();
  readonly gone = this.#gone.promise;
  #socket: RosSocket | undefined;
  #subscription_id = 0;
  /** Prefix of rosapi's services on this server. */
  #prefix = "/rosapi/";

  constructor(clock: Clock, settings: RosSettings) {
    this.#clock = clock;
    this.distro = settings.distro ?? null;
    this.#calls = new Calls(clock, (value) => this.#socket?.send(value));
  }

  /** Connects to the server. Returns false if no rosbridge server answers. */
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
    return textsOf((await this.#ask("nodes", {}))?.["nodes"]);
  }

  async topics(): Promise<RosTopic[]> {
    const answer = await this.#ask("topics", {});
    // Each type belongs to the topic name at the same index. So replace an invalid type instead of removing it.
    const types = listOf(answer?.["types"]).map((type) => (typeof type === "string" ? type : ""));
    return listOf(answer?.["topics"]).flatMap((name, index) => (typeof name === "string" ? [{ name, type: types[index] ?? "" }] : []));
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
    this.#gone.resolve("the adapter was closed");
  }

  /**
   * Returns whether the server answers a call of a rosapi service, even with "no such service". On some servers, rosapi's services have no
   * leading slash.
   */
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

  /** Subscribes when the topic has a publisher, since rosbridge refuses a topic without a type. */
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
    const message = parseObject(data.toString("utf8"));
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

const CALL_MS_MAX = 2_000;

type Answer = { ok: true; values: Record<string, unknown> } | { ok: false };

class Calls {
  readonly #clock: Clock;
  readonly #send: (value: unknown) => void;
  readonly #waiting = new Map<string, (answer: Answer | undefined) => void>();
  #count = 0;
  #ended = false;

  constructor(clock: Clock, send: (value: unknown) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /**
   * Calls a service. The response's `ok` is false if the service does not exist or the call fails. Resolves with undefined if there is no
   * response within CALL_MS_MAX.
   */
  call(service: string, args: Record<string, unknown>): Promise<Answer | undefined> {
    if (this.#ended) return Promise.resolve(undefined);
    const id = `call:${(this.#count += 1)}`;
    return new Promise((resolve) => {
      const end = (answer: Answer | undefined): void => {
        timer.cancel();
        this.#waiting.delete(id);
        resolve(answer);
      };
      const timer = this.#clock.setTimer(CALL_MS_MAX, () => end(undefined));
      this.#waiting.set(id, end);
      this.#send({ op: "call_service", id, service, args });
    });
  }

  take({ id, result, values }: Record<string, unknown>): void {
    const failed = result === false || typeof values !== "object" || values === null;
    this.#waiting.get(String(id))?.(failed ? { ok: false } : { ok: true, values: values as Record<string, unknown> });
  }

  /** Ends all pending calls without a response. From then on, new calls end immediately. */
  end(): void {
    this.#ended = true;
    for (const answer of this.#waiting.values()) answer(undefined);
  }
}

/** Element types of arrays that rosbridge sends as base64. */
const BYTE_TYPES = new Set(["uint8", "char", "byte", "octet"]);

/** Which fields of a message type contain bytes: true for an array of bytes, a nested map for a nested message. */
type ByteFields = ReadonlyMap<string, true | ByteFields>;

/** Parses the response of `rosapi/message_details`. The first entry is the type itself, followed by its nested types. */
function readByteFields(type: string, typedefs: unknown): ByteFields {
  const definitions = new Map<string, Record<string, unknown>>();
  for (const value of listOf(typedefs)) {
    const definition = fieldsOf(value);
    definitions.set(plainType(String(definition["type"])), definition);
  }
  return byteFieldsOf(plainType(type), definitions, new Set());
}

function byteFieldsOf(type: string, definitions: ReadonlyMap<string, Record<string, unknown>>, above: ReadonlySet<string>): ByteFields {
  const made = new Map<string, true | ByteFields>();
  const definition = definitions.get(type);
  // Stop if a type contains itself: a wrong response must not cause endless recursion.
  if (definition === undefined || above.has(type)) return made;
  const [names, types, lengths] = ["fieldnames", "fieldtypes", "fieldarraylen"].map((key) => listOf(definition[key]));
  for (const [index, name] of names!.entries()) {
    const field_type = String(types![index]);
    const is_array = Number(lengths![index]) >= 0;
    if (is_array && BYTE_TYPES.has(field_type)) made.set(String(name), true);
    else {
      const inner = byteFieldsOf(plainType(field_type), definitions, new Set([...above, type]));
      if (inner.size > 0) made.set(String(name), inner);
    }
  }
  return made;
}

/** Returns the message with its base64 fields decoded to bytes. */
function withBytes(message: unknown, fields: ByteFields): unknown {
  if (Array.isArray(message)) return message.map((one) => withBytes(one, fields));
  if (typeof message !== "object" || message === null) return message;
  for (const [name, inner] of fields) {
    const value: unknown = Reflect.get(message, name);
    if (inner !== true) Reflect.set(message, name, withBytes(value, inner));
    else if (typeof value === "string") Reflect.set(message, name, new Uint8Array(Buffer.from(value, "base64")));
  }
  return message;
}

/**
 * Returns the type's name in the form of ROS 1, such as `sensor_msgs/Image`. rosapi may also use the form of ROS 2,
 * `sensor_msgs/msg/Image`.
 */
const plainType = (type: string): string => type.replace("/msg/", "/");
