import {
  type Channel,
  ChannelRefused,
  CLOSE_NOT_AVAILABLE,
  commonFeatures,
  readMessage,
  type TopicsParams,
} from "@roamfleet/protocol/link";
import type { Plane } from "../../context.ts";
import { badRequest } from "../../kernel/fault.ts";
import type { StartStream, StreamContext } from "./stream-kind.ts";
import { LatestSlot } from "./hub.ts";
import { openChannel } from "./robot-channel.ts";
import type { Viewer } from "./viewer.ts";

const TOPIC_CHARACTERS_MAX = 256;
const FIELD_CHARACTERS_MAX = 256;
const RATE_MAX = 1_000;

export const ROS_ECHO_QUERY = ["topic", "type", "rate", "field", "full"] as const;

/**
 * Prepares a stream of a ROS topic, or of the list of topics if the query has no `topic`. Throws 400 for invalid values. Only the robot can
 * check whether the names exist. The query of a topic has these optional parameters:
 * - `type`: the type of the topic, if topics of several types share the name
 * - `rate`: maximum messages per second
 * - `field`: the part of each message to send, such as `a.b[0].c`
 * - `full`: if true, no part of a message is summarized
 */
export function prepareRosEcho(query: URLSearchParams): StartStream {
  const topic = query.get("topic");
  const [type, rate, field, full] = [query.get("type"), query.get("rate"), query.get("field"), query.get("full")];
  if (topic === null || topic === "") {
    if (type !== null || rate !== null || field !== null || full !== null)
      throw badRequest("query parameters type, rate, field and full need a topic");
    return (context, viewer) => startTopics(context, viewer);
  }
  if (topic.length > TOPIC_CHARACTERS_MAX || !/^\/?[^/\s\p{Cc}][^\s\p{Cc}]*$/u.test(topic))
    throw badRequest("query parameter topic must be the name of a topic, such as /chatter");
  if (type !== null && (type === "" || type.length > TOPIC_CHARACTERS_MAX))
    throw badRequest("query parameter type must be the type of a topic, such as std_msgs/msg/String");
  const messages = Number(rate ?? 1);
  if (rate === "" || !(messages > 0 && messages <= RATE_MAX))
    throw badRequest(`query parameter rate must be a number of messages per second, above 0 and at most ${RATE_MAX}`);
  if (field !== null && field.length > FIELD_CHARACTERS_MAX)
    throw badRequest(`query parameter field must have at most ${FIELD_CHARACTERS_MAX} characters`);
  if (full !== null && full !== "true" && full !== "false") throw badRequest("query parameter full must be true or false");
  const params: TopicsParams = {
    op: "echo",
    topic: topic.startsWith("/") ? topic : `/${topic}`,
    ...(type === null ? {} : { type }),
    ...(rate === null ? {} : { rate: messages }),
    ...(field === null || field === "" ? {} : { field }),
    ...(full === "true" ? { full: true } : {}),
  };
  return (context, viewer) => startEcho(context, viewer, params);
}

/** Sends messages as `{topic, type, at, message}`. If messages were skipped before a message, it also has their number as `skipped`. */
async function startEcho(context: StreamContext, viewer: Viewer, params: TopicsParams): Promise<void> {
  /** Number of the last sent message. Skipped messages are numbered too. */
  let sent: number | undefined;
  let newest = 0;
  const slot = new LatestSlot<Numbered>(viewer, ({ text, number }) => {
    const skipped = sent === undefined ? 0 : number - sent - 1;
    sent = number;
    return skipped === 0 ? `{${text}` : `{"skipped":${skipped},${text}`;
  });
  await share(context, viewer, params, (message) => {
    const read = readEcho(message);
    if (read === undefined) return;
    newest += read.skipped + 1;
    slot.offer({ text: read.text, number: newest });
  });
}

interface Numbered {
  /** The message as JSON, without its opening brace and without the field `skipped` that the robot may have added. */
  text: string;
  number: number;
}

/**
 * Sends the list of topics, `{topics: [{name, type, adapter, others?}], adapter, distro, adapters?}`, immediately and after each change.
 * Older agents omit `adapters`.
 */
async function startTopics(context: StreamContext, viewer: Viewer): Promise<void> {
  const slot = new LatestSlot<string>(viewer, (text) => text);
  await share(context, viewer, { op: "list", follow: true }, (message) => {
    const { control } = readMessage(message);
    if (control?.type === "topics")
      slot.offer(JSON.stringify({ topics: control.topics, adapter: control.adapter, distro: control.distro, adapters: control.adapters }));
  });
}

/**
 * Opens the channel for topics. Refuses the parameter `type` if the agent does not support it: the agent would ignore it, and might send
 * the messages of another topic.
 */
async function openTopics(plane: Plane, viewer: Viewer, params: TopicsParams): Promise<Channel> {
  const features = commonFeatures(plane.link.session(viewer.admitted.robot_id)?.hello.features);
  if ("type" in params && !features.includes("ros_adapters"))
    throw new ChannelRefused({ code: CLOSE_NOT_AVAILABLE, reason: "the robot's agent is too old to choose a topic by its type" });
  return await openChannel(plane, viewer, "topics", "topics", params);
}

/** Shares one channel to the robot among viewers with the same parameters. */
async function share(
  { plane, hub }: StreamContext,
  viewer: Viewer,
  params: TopicsParams,
  take: (message: Uint8Array) => void,
): Promise<void> {
  await hub.share({
    key: JSON.stringify(["topics", viewer.admitted.robot_id, params]),
    open: () => openTopics(plane, viewer, params),
    viewer,
    take,
    greet: true,
  });
}

interface EchoMessage {
  text: string;
  skipped: number;
}

/** Parsed messages by the original message. All viewers of a channel share them. */
const read_already = new WeakMap<Uint8Array, EchoMessage>();
/** Matches the field `skipped`. The robot writes this field first, so that the server does not have to parse the rest of the message. */
const SKIPPED = /^\{"skipped":(\d{1,15}),/;

function readEcho(message: Uint8Array): EchoMessage | undefined {
  const known = read_already.get(message);
  if (known !== undefined) return known;
  const { data } = readMessage(message);
  if (data === undefined) return undefined;
  const text = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("utf8");
  const [head, skipped] = SKIPPED.exec(text) ?? ["{", "0"];
  const read = { text: text.slice(head.length), skipped: Number(skipped) };
  read_already.set(message, read);
  return read;
}
