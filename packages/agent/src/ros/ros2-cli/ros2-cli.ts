import type { ChildProcess } from "node:child_process";
import { StringDecoder } from "node:string_decoder";
import type { Clock } from "@roamfleet/clock";
import { parse } from "yaml";
import { backoffMs } from "../../link/backoff.ts";
import { type FindRosAdapter, LazyMessage, type RosAdapter, type RosMessage, type RosTopic, UndecodedMessage } from "../adapter.ts";
import { stopGroup } from "../../runtime/processes.ts";
import { spawnChild, runCommand, findProgram } from "../../runtime/spawn-child.ts";

/** Time limit of a command that lists topics or nodes. Python starts slowly on a small computer. */
const LIST_MS_MAX = 20_000;
/** Time in milliseconds for which lists are cached. Each list requires a process that runs for several seconds. */
const LIST_FRESH_MS = 30_000;
const FAILED_LISTS_MAX = 2;
/** Options that run `ros2` without its daemon, which would keep running. Without the daemon, each command has to discover the network. */
const ALONE = ["--no-daemon", "--spin-time", "2"];
/** Topics that the `ros2` command itself publishes, so they exist even without ROS. */
const OWN_TOPICS = new Set(["/rosout", "/parameter_events"]);

const readBytes = (bytes: Uint8Array): unknown => readDocument(Buffer.from(bytes).toString("utf8"));
const tooLong = (bytes: Uint8Array): UndecodedMessage => new UndecodedMessage(bytes, "too long for the ros2 command");

interface Lists {
  topics: RosTopic[];
  nodes: string[];
}

/** Finds the `ros2` command. The adapter runs a child process for each list, and one for each topic with listeners. */
export const findRos2: FindRosAdapter = async ({ settings, clock, signal }) => {
  const program = findProgram("ros2", settings.environment["PATH"] ?? "");
  if (program === undefined) return undefined;
  const command: Ros2Command = { program, environment: settings.environment, clock };
  const lists = await readLists(command, signal);
  if (lists === undefined) return undefined;
  if (lists.nodes.length === 0 && lists.topics.every(({ name }) => OWN_TOPICS.has(name))) return undefined;
  return new Ros2Adapter(command, lists, settings.distro ?? null);
};

async function readLists(command: Ros2Command, signal?: AbortSignal): Promise<Lists | undefined> {
  const [topics, nodes] = await Promise.all([
    outputOf(command, ["topic", "list", "-t", ...ALONE], LIST_MS_MAX, signal),
    outputOf(command, ["node", "list", ...ALONE], LIST_MS_MAX, signal),
  ]);
  if (topics === undefined || nodes === undefined) return undefined;
  return { topics: readTopics(topics), nodes: [...new Set(nodes.split("\n").filter((name) => name.startsWith("/")))] };
}

/** Parses lines such as `/chatter [std_msgs/msg/String]`. If a topic has several types, uses the first. */
const readTopics = (text: string): RosTopic[] =>
  [...text.matchAll(/^(\/\S*) \[([^\s,\]]+)[^\]\n]*\]$/gm)].map(([, name = "", type = ""]) => ({ name, type }));

class Ros2Adapter implements RosAdapter {
  readonly name = "ros2";
  readonly distro: string | null;
  readonly #command: Ros2Command;
  readonly #clock: Clock;
  readonly #gone = Promise.withResolvers<string>();
  readonly gone = this.#gone.promise;
  readonly #closing = new AbortController();
  readonly #echoes = new Set<Promise<void>>();
  #lists: Lists;
  #listed_at_ms: number;
  #listing: Promise<void> | undefined;
  #failed = 0;

  constructor(command: Ros2Command, lists: Lists, distro: string | null) {
    this.#command = command;
    this.#clock = command.clock;
    this.#lists = lists;
    this.#listed_at_ms = command.clock.monotonic();
    this.distro = distro;
  }

  nodes(): string[] {
    this.#refresh();
    return this.#lists.nodes;
  }

  topics(): RosTopic[] {
    this.#refresh();
    return this.#lists.topics;
  }

  subscribe(topic: string, on: (message: RosMessage) => void): Promise<() => void> {
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, this.#closing.signal]);
    const echo = this.#echo(topic, on, signal).finally(() => this.#echoes.delete(echo));
    this.#echoes.add(echo);
    return Promise.resolve(() => over.abort());
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#echoes);
    await this.#listing;
    this.#gone.resolve("the adapter was closed");
  }

  /** Refreshes the lists in the background if they are old. The caller meanwhile uses the old lists. */
  #refresh(): void {
    if (this.#listing !== undefined || this.#closing.signal.aborted || this.#clock.monotonic() - this.#listed_at_ms < LIST_FRESH_MS) return;
    this.#listing = this.#list().finally(() => (this.#listing = undefined));
  }

  async #list(): Promise<void> {
    const lists = await readLists(this.#command, this.#closing.signal).catch(() => undefined);
    if (this.#closing.signal.aborted) return;
    this.#listed_at_ms = this.#clock.monotonic();
    this.#failed = lists === undefined ? this.#failed + 1 : 0;
    this.#lists = lists ?? this.#lists;
    if (this.#failed >= FAILED_LISTS_MAX) this.#gone.resolve("ros2 no longer lists topics");
  }

  /**
   * Runs `ros2 topic echo` until the signal is aborted. Restarts it with backoff, since it exits if the topic has no type yet, and may
   * exit at any time.
   */
  async #echo(topic: string, on: (message: RosMessage) => void, signal: AbortSignal): Promise<void> {
    for (let tries = 0; !signal.aborted; tries += 1) {
      const type = this.#typeOf(topic);
      // The topic may exist although the list does not contain it. Then the command itself determines the type.
      const came = await this.#echoOnce(topic, type, on, signal).catch(() => false);
      if (came) tries = 0;
      if (!signal.aborted) await this.#clock.sleep(backoffMs(this.#clock, tries), signal);
    }
  }

  /** Runs `ros2 topic echo` once. Returns whether it printed a message. */
  async #echoOnce(topic: string, type: string | undefined, on: (message: RosMessage) => void, signal: AbortSignal): Promise<boolean> {
    const child = start(this.#command, ["topic", "echo", "--full-length", ...ALONE, topic, ...(type === undefined ? [] : [type])]);
    let came = false;
    const documents = new Documents((text) => {
      came = true;
      if (signal.aborted) return;
      const decode = text === undefined ? tooLong : readBytes;
      on(new LazyMessage(type ?? this.#typeOf(topic) ?? "", this.#clock.now(), Buffer.from(text ?? ""), decode));
    });
    await new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve(), { once: true });
      child.once("error", () => resolve());
      child.once("close", () => resolve());
      child.stdout?.on("data", (chunk: Buffer) => documents.add(chunk));
    });
    await stop(child, this.#clock);
    return came;
  }

  #typeOf(topic: string): string | undefined {
    return this.topics().find(({ name }) => name === topic)?.type;
  }
}

/** Maximum bytes of one list. The names of a few thousand topics fit. */
const OUTPUT_BYTES_MAX = 4 * 1024 * 1024;
const STOP_GRACE_MS = 1_000;

interface Ros2Command {
  program: string;
  environment: Readonly<Record<string, string>>;
  clock: Clock;
}

/**
 * Starts the command as the leader of a new process group. If no file descriptors are left, the child has no pipe and emits `error`.
 * Disables Python's output buffer, which would delay messages.
 */
export function start({ program, environment }: Ros2Command, args: readonly string[]): ChildProcess {
  const env = { ...environment, PYTHONUNBUFFERED: "1" };
  return spawnChild(program, args, { env, detached: true, stdio: ["ignore", "pipe", "ignore"] });
}

export async function stop(child: ChildProcess, clock: Clock): Promise<void> {
  child.stdout?.destroy();
  if (child.pid !== undefined) await stopGroup(child.pid, { clock, grace_ms: STOP_GRACE_MS });
}

/** Runs the command and returns its output. Returns undefined if it fails, prints too much or does not end within `timeout_ms`. */
export async function outputOf(
  { program, environment, clock }: Ros2Command,
  args: readonly string[],
  timeout_ms: number,
  signal?: AbortSignal,
): Promise<string | undefined> {
  if (signal?.aborted) return undefined;
  const env = { ...environment, PYTHONUNBUFFERED: "1" };
  const { ok, output } = await runCommand({ argv: [program, ...args], env, timeout_ms, clock, signal, output_bytes_max: OUTPUT_BYTES_MAX });
  return ok ? output : undefined;
}

/** Maximum characters of one YAML document. Parsing blocks the event loop, for 0.25 s at this length. */
export const ROS2_DOCUMENT_CHARACTERS_MAX = 128 * 1024;

const END = "---\n";

/** Splits the output of `ros2 topic echo` into YAML documents. */
export class Documents {
  readonly #decoder = new StringDecoder("utf8");
  readonly #take: (text: string | undefined) => void;
  #text = "";
  /** Offset in `#text` at which the next search for the separator begins. */
  #seen = 0;
  #too_long = false;

  /** `take` is called with the text of each document, or with undefined if a document is too long. */
  constructor(take: (text: string | undefined) => void) {
    this.#take = take;
  }

  add(chunk: Buffer): void {
    this.#text += this.#decoder.write(chunk);
    for (let at = this.#end(); at !== -1; at = this.#end()) {
      this.#take(this.#too_long || at > ROS2_DOCUMENT_CHARACTERS_MAX ? undefined : this.#text.slice(0, at));
      this.#too_long = false;
      this.#text = this.#text.slice(at + END.length);
      this.#seen = 0;
    }
    if (this.#text.length <= ROS2_DOCUMENT_CHARACTERS_MAX) return;
    this.#too_long = true;
    // Keep the last characters: they may be the beginning of the separator.
    this.#text = this.#text.slice(-END.length);
    this.#seen = 0;
  }

  /** Returns the offset of the line of dashes that ends the first document; -1 if it was not received yet. */
  #end(): number {
    for (;;) {
      const at = this.#text.indexOf(END, this.#seen);
      if (at === -1) {
        this.#seen = Math.max(0, this.#text.length - END.length);
        return -1;
      }
      if (at === 0 || this.#text[at - 1] === "\n") return at;
      this.#seen = at + 1;
    }
  }
}

/** Parses a YAML document. Integers that a number represents exactly become numbers; larger ones become bigint. */
export function readDocument(text: string): unknown {
  return exact(parse(text, { intAsBigInt: true, maxAliasCount: 0, logLevel: "error" }));
}

function exact(value: unknown): unknown {
  if (typeof value === "bigint") return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
  if (Array.isArray(value)) return value.map(exact);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, exact(field)]));
}
