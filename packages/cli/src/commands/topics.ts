import { type TopicRate, TopicRateMeter } from "@roamfleet/protocol/topic-rate";
import type { Client, Frame, Stream } from "@roamfleet/sdk";
import { Argument, InvalidArgumentError } from "commander";
import { defineCommand, wholeNumber } from "../command.ts";
import type { Context } from "../context.ts";
import { usage } from "../failure.ts";
import { eachFrame, throwEnding } from "../stream-ending.ts";
import { line, plain } from "../text.ts";

const WORDS = { right: "see topics", again: "Run the command again." };
const ACTIONS = ["list", "echo", "hz"] as const;
type Action = (typeof ACTIONS)[number];
/** Interval at which `rf robots topics hz` prints the rate. ROS's own tool uses the same. */
const HZ_MS = 1_000;

interface Options {
  type?: string;
  field?: string;
  rate?: number;
  full?: boolean;
  count?: number;
}

interface Topics {
  topics: { name: string; type: string; adapter?: string; others?: { type: string; adapter: string }[] }[];
  adapter: string | null;
  distro: string | null;
  /** The ROS adapters of the robot. Older agents and servers do not send them. */
  adapters?: { name: string; state: string; distro?: string | null; reason?: string }[];
}

interface Echo {
  skipped?: number;
  topic: string;
  type: string;
  at: string;
  message: unknown;
  /** Explains why the message differs from the requested form. */
  note?: string;
}

function rateNumber(text: string): number {
  const value = Number(text);
  if (text === "" || !(value > 0 && value <= 1_000)) throw new InvalidArgumentError("Expected a number above 0, up to 1000.");
  return value;
}

export const topics = defineCommand<[string, Action, string | undefined, Options]>(
  "List the ROS topics of a robot, or print the messages of one topic or measure their rate. Long arrays and strings are summarized unless --full is given. If the connection or terminal is too slow, messages are skipped, and their number is printed on stderr.",
  (command) =>
    command
      .argument("<id>", "ID of the robot")
      .addArgument(new Argument("<action>", ACTIONS.join(", ")).choices(ACTIONS))
      .argument("[topic]", "Name of the topic, for echo and hz")
      .option("--type <type>", "Type of the topic, if ROS 1 and ROS 2 have topics of the same name")
      .option("--field <path>", "Only this part of each message, such as header.stamp or ranges[0]")
      .option("--rate <hz>", "Maximum messages per second", rateNumber)
      .option("--full", "Show complete arrays and strings, up to 512 KiB per message")
      .option("--count <n>", "Stop after this many messages (echo) or rates (hz)", wholeNumber(1)),
  async (context, robot_id, action, topic, options) => {
    if (action === "list") {
      if (topic !== undefined || Object.keys(options).length > 0) throw usage("list accepts no topic and no flags of echo or hz");
      return list(context, await context.client(), robot_id);
    }
    if (topic === undefined) throw usage(`a topic is required: rf robots topics ${robot_id} ${action} /…`, "`list` shows the topics.");
    if (action === "hz" && (options.field ?? options.rate ?? options.full) !== undefined)
      throw usage("hz counts all messages and accepts only --type and --count");
    const client = await context.client();
    await (action === "echo" ? echo(context, client, robot_id, topic, options) : hz(context, client, robot_id, topic, options));
  },
  [
    "rf robots topics rob_… list",
    "rf robots topics rob_… echo /chatter",
    "rf robots topics rob_… echo /odom --field pose.pose.position --rate 5",
    "rf robots topics rob_… echo /scan --full --count 1 --json | jq .message.ranges",
    "rf robots topics rob_… hz /scan",
    "rf robots topics rob_… echo /tf --type tf2_msgs/TFMessage",
  ],
);

async function list(context: Context, client: Client, robot_id: string): Promise<void> {
  const { out } = context;
  const signal = context.interruptible();
  const stream = await client.stream("ros_echo", { robot_id, signal });
  const found = await firstOf<Topics>(stream);
  signal.throwIfAborted();
  if (found === undefined) {
    throwEnding(stream, { ...WORDS, nothing_printed: true });
    throw usage("the robot returned no topics");
  }
  await out.result(found, async () => {
    if (found.topics.length === 0) out.note("No topics are published.");
    if (found.topics.length === 0) return noteAdapters(out, found);
    const rows = found.topics.flatMap(({ name, others = [], ...first }) => [first, ...others].map((of) => ({ name, ...of })));
    const has_several = new Set(rows.map(({ adapter }) => adapter)).size > 1;
    await out.table(rows, [
      { title: "TOPIC", value: ({ name }) => name },
      { title: "TYPE", value: ({ type }) => type },
      ...(has_several ? [{ title: "ADAPTER", value: ({ adapter }: (typeof rows)[number]) => adapter ?? "–" }] : []),
    ]);
    noteAdapters(out, found);
    const shared = found.topics.find(({ others }) => others !== undefined);
    if (shared !== undefined)
      out.note(line`${shared.name} has several types: echo and hz read ${shared.type} unless --type names another type`);
  });
}

/** Prints the adapters that found the topics, `12 topics, via dds (jazzy), ros1 (noetic)`, and the adapters that failed. */
function noteAdapters(out: Context["out"], { topics, adapter, distro, adapters }: Topics): void {
  const connected = adapters?.filter(({ state }) => state === "connected") ?? [{ name: adapter ?? "?", distro }];
  const names = connected.map((one) => (one.distro == null ? one.name : `${one.name} (${one.distro})`));
  out.note(line`${topics.length} ${topics.length === 1 ? "topic" : "topics"}, via ${names.join(", ") || "?"}`);
  for (const { name, state, reason } of adapters ?? [])
    if (state === "failed" || state === "lost") out.note(line`${name} ${state}: ${reason ?? "no reason given"}`);
}

async function firstOf<T>(stream: Stream): Promise<T | undefined> {
  for await (const { data } of stream) return JSON.parse(data.toString()) as T;
  return undefined;
}

/** Passes each message to `take` until `take` returns false or `until` aborts. */
async function follow(
  context: Context,
  open: (signal: AbortSignal) => Promise<Stream>,
  take: (echo: Echo) => Promise<boolean> | boolean,
  until?: AbortSignal,
): Promise<void> {
  let note: string | undefined;
  const takeFrame = ({ data }: Frame): Promise<boolean> | boolean => {
    const message = JSON.parse(data.toString()) as Echo;
    if (message.note !== undefined && message.note !== note) context.out.note(plain(message.note));
    note = message.note;
    return take(message);
  };
  await eachFrame(context, open, WORDS, takeFrame, until);
}

async function echo(
  context: Context,
  client: Client,
  robot_id: string,
  topic: string,
  { type, field, rate, full, count }: Options,
): Promise<void> {
  const { out } = context;
  const query = { topic, type, field, rate, full: full ? "true" : undefined };
  const { yamlText } = await import("../yaml-text.ts");
  let left = count ?? Number.POSITIVE_INFINITY;
  const open = (signal: AbortSignal): Promise<Stream> => client.stream("ros_echo", { robot_id, query, signal });
  await follow(context, open, async (message) => {
    if (message.skipped !== undefined) out.note(`skipped ${message.skipped}`);
    if (context.structured) await out.record(message);
    else out.line(`${yamlText(message.message, { lists_in_line: true })}---`);
    left -= 1;
    return left > 0;
  });
}

async function hz(context: Context, client: Client, robot_id: string, topic: string, { type, count }: Options): Promise<void> {
  const { out, clock } = context;
  const meter = new TopicRateMeter(WINDOW_MAX);
  const enough = new AbortController();
  let left = count ?? Number.POSITIVE_INFINITY;
  let came = 0;
  const print = async (): Promise<void> => {
    const rate = meter.read();
    if (rate === undefined || came === 0) return out.note("no new messages");
    came = 0;
    if (context.structured) await out.record({ topic, ...rate });
    else out.line(rateText(rate));
    left -= 1;
    if (left <= 0) enough.abort();
  };
  let timer: { cancel(): void } | undefined;
  const open = async (signal: AbortSignal): Promise<Stream> => {
    const stream = await client.stream("ros_echo", { robot_id, query: { topic, type }, signal });
    if (!context.structured) out.note(line`subscribed to [${topic}]`);
    timer = clock.every(HZ_MS, print);
    return stream;
  };
  const add = ({ at, skipped = 0 }: Echo): boolean => {
    meter.add(Date.parse(at), skipped);
    came += skipped + 1;
    return true;
  };
  try {
    await follow(context, open, add, enough.signal);
  } finally {
    timer?.cancel();
  }
}

/** Maximum number of intervals from which `rf robots topics hz` computes the rate. */
const WINDOW_MAX = 10_000;

/** Formats a rate like ROS's own tools. */
export function rateText({ rate, min_s, max_s, std_dev_s, window }: TopicRate): string {
  const seconds = (value: number | null, digits: number): string => (value === null ? "-" : `${value.toFixed(digits)}s`);
  return `average rate: ${rate.toFixed(3)}\n\tmin: ${seconds(min_s, 3)} max: ${seconds(max_s, 3)} std dev: ${seconds(std_dev_s, 5)} window: ${window}`;
}
