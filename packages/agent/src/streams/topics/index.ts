import type { Clock } from "@roamfleet/clock";
import { type Channel, CLOSE_NOT_AVAILABLE, controlMessage, dataMessage, type StreamSource } from "@roamfleet/protocol/link";
import type { RosMessage } from "../../ros/adapter.ts";
import type { RosBridge } from "../../ros/bridge.ts";
import { type FieldPath, FULL_BYTES_MAX, parseFieldPath, pickField, showMessage, SUMMARIZED } from "./to-json.ts";

/** Minimum interval in milliseconds between two updates of a list that is followed. */
const LIST_MS = 1_000;
/**
 * Maximum wait for the first message of a topic, in milliseconds. If none arrives and the topic is not in the list of topics, the stream
 * ends with a reason.
 */
const UNPUBLISHED_MS = 1_500;
/** Maximum time that a list of topics waits for further adapters once one adapter is connected. */
const LIST_REST_MS = 1_000;
/** Maximum topics in the list. */
const LIST_MAX = 2_000;

export interface TopicsOptions {
  ros: Pick<RosBridge, "find" | "topics" | "subscribe" | "adapters">;
  clock: Clock;
}

/** Serves channels of kind `topics`: the list of topics, or the messages of one topic. */
export function topicsSource(options: TopicsOptions): StreamSource {
  return (channel, params) => {
    const request = readTopicsRequest(params);
    if (typeof request === "string") return channel.reset(CLOSE_NOT_AVAILABLE, request);
    const rest_ms = request.op === "list" ? LIST_REST_MS : 0;
    return serve(options, channel, rest_ms, (ended) =>
      request.op === "list" ? sendTopics(options, channel, request.follow, ended) : new Echo(options, channel, request).run(),
    );
  };
}

async function serve(
  { ros }: TopicsOptions,
  channel: Channel,
  rest_ms: number,
  work: (ended: AbortSignal) => Promise<void>,
): Promise<void> {
  const ended = new AbortController();
  void channel.ended.then(() => ended.abort());
  try {
    if (!(await ros.find({ rest_ms }))) return channel.reset(CLOSE_NOT_AVAILABLE, "ROS does not respond on this robot");
    if (!ended.signal.aborted) await work(ended.signal);
  } catch {
    channel.reset(CLOSE_NOT_AVAILABLE, "the topics of this robot could not be read");
  }
}

async function sendTopics({ ros, clock }: TopicsOptions, channel: Channel, follow: boolean, ended: AbortSignal): Promise<void> {
  for (let before = ""; !ended.aborted;) {
    const topics = (await ros.topics()).slice(0, LIST_MAX);
    const { adapters } = ros;
    // The fields `adapter` and `distro` describe the first adapter, for clients that support only one.
    const first = adapters.find(({ state }) => state === "connected");
    const list = { type: "topics", topics, adapter: first?.name ?? null, distro: first?.distro ?? null, adapters };
    const text = JSON.stringify(list);
    if (text !== before && !(await channel.write(controlMessage(list)))) return;
    if (!follow) return channel.close(1000, "");
    before = text;
    await clock.sleep(LIST_MS, ended);
  }
}

/** Sends messages of one topic. Each time the previous message has been sent, sends the newest one, and counts those that were skipped. */
class Echo {
  readonly #ros: TopicsOptions["ros"];
  readonly #channel: Channel;
  readonly #request: EchoRequest;
  #newest: RosMessage | undefined;
  #skipped = 0;
  #sending = false;
  #has_come = false;
  readonly #clock: Clock;

  constructor({ ros, clock }: TopicsOptions, channel: Channel, request: EchoRequest) {
    this.#ros = ros;
    this.#clock = clock;
    this.#channel = channel;
    this.#request = request;
  }

  async run(): Promise<void> {
    const { topic, type, rate } = this.#request;
    const unsubscribe = await this.#ros.subscribe(topic, { rate, type }, (message) => this.#take(message));
    const ended = this.#channel.ended.then(() => unsubscribe());
    await Promise.race([ended, this.#clock.sleep(UNPUBLISHED_MS)]);
    if (!this.#has_come && !(await this.#isPublished()) && !this.#has_come)
      this.#channel.reset(
        CLOSE_NOT_AVAILABLE,
        `no topic ${topic}${type === undefined ? "" : ` of type ${type}`} is published on this robot: \`rf robots topics ROBOT list\` lists those that are`,
      );
    await ended;
  }

  async #isPublished(): Promise<boolean> {
    const { topic, type } = this.#request;
    const found = (await this.#ros.topics()).find(({ name }) => name === topic);
    return found !== undefined && (type === undefined || [found, ...(found.others ?? [])].some((one) => one.type === type));
  }

  #take(message: RosMessage): void {
    this.#has_come = true;
    if (this.#newest !== undefined) this.#skipped += 1;
    this.#newest = message;
    if (!this.#sending) void this.#send();
  }

  async #send(): Promise<void> {
    this.#sending = true;
    try {
      await this.#sendNewest();
    } catch {
      this.#channel.reset(CLOSE_NOT_AVAILABLE, "a message of this topic could not be shown");
    }
  }

  async #sendNewest(): Promise<void> {
    for (let message = this.#newest; message !== undefined; message = this.#newest) {
      this.#newest = undefined;
      const skipped = this.#skipped;
      this.#skipped = 0;
      const line = this.#lineOf(message, skipped);
      if (line === undefined || !(await this.#channel.write(dataMessage(Buffer.from(line))))) return;
      // Wait until the message has left the queue, so that the next one is chosen as late as possible and is the newest.
      if (!(await this.#channel.drained())) return;
    }
    this.#sending = false;
  }

  /**
   * Returns a message as JSON. `skipped` comes first, so that the server finds it without parsing the rest. Returns undefined if the
   * message lacks the requested field; then the stream has ended.
   */
  #lineOf(message: RosMessage, skipped: number): string | undefined {
    const { topic, field, full } = this.#request;
    const { type, at } = message;
    const picked = pickField(message.message, field);
    if ("missing" in picked) {
      this.#channel.reset(CLOSE_NOT_AVAILABLE, `${type} has no field ${picked.missing}`);
      return undefined;
    }
    const head = { ...(skipped > 0 ? { skipped } : {}), topic, type, at: at.toISOString() };
    const line = JSON.stringify({ ...head, ...showMessage(picked.value, full) });
    if (Buffer.byteLength(line) <= FULL_BYTES_MAX) return line;
    const summary = JSON.stringify({ ...head, ...showMessage(picked.value, false), note: SUMMARIZED });
    return Buffer.byteLength(summary) <= FULL_BYTES_MAX ? summary : JSON.stringify({ ...head, message: null, note: "too large" });
  }
}

const TOPIC_CHARACTERS_MAX = 256;
const FIELD_CHARACTERS_MAX = 256;
const RATE_MAX = 1_000;

interface EchoRequest {
  /** Name of the topic, with a leading slash. */
  topic: string;
  /** The type, if topics of several types share the name. */
  type: string | undefined;
  rate: number | undefined;
  field: FieldPath;
  full: boolean;
}

type TopicsRequest = { op: "list"; follow: boolean } | ({ op: "echo" } & EchoRequest);

/** Parses the parameters of a channel; returns a message if they are invalid. */
export function readTopicsRequest(params: unknown): TopicsRequest | string {
  if (typeof params !== "object" || params === null) return "params must be an object";
  const { op, follow, topic, type, rate, field, full } = params as Record<string, unknown>;
  if (op === "list") return { op, follow: follow === true };
  if (op !== "echo") return "op must be list or echo";
  if (typeof topic !== "string" || topic.length > TOPIC_CHARACTERS_MAX || !/^\/?[^/\s\p{Cc}][^\s\p{Cc}]*$/u.test(topic))
    return "topic must be the name of a topic, such as /chatter";
  if (type !== undefined && (typeof type !== "string" || type.length > TOPIC_CHARACTERS_MAX))
    return "type must be the type of a topic, such as std_msgs/msg/String";
  if (rate !== undefined && !(typeof rate === "number" && rate > 0 && rate <= RATE_MAX))
    return `rate must be a number of messages per second, above 0 and at most ${RATE_MAX}`;
  if (field !== undefined && (typeof field !== "string" || field.length > FIELD_CHARACTERS_MAX))
    return "field must be a path such as a.b[0].c";
  if (full !== undefined && typeof full !== "boolean") return "full must be true or false";
  const path = parseFieldPath(field ?? "");
  if (path === undefined) return `field must be a path such as a.b[0].c`;
  return { op, topic: topic.startsWith("/") ? topic : `/${topic}`, type, rate, field: path, full: full === true };
}
