import { once } from "node:events";
import process from "node:process";
import { createInterface } from "node:readline";
import { addAbortSignal, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { fillPath, paths } from "@roamfleet/protocol/paths";
import type { Client } from "@roamfleet/sdk";
import { InvalidArgumentError } from "commander";
import { defineCommand, oneOf } from "../command.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { printList } from "../lists.ts";
import { requestBody, writeWhole } from "../response-body.ts";
import { plain } from "../text.ts";

const ACTIONS = ["list", "play"] as const;
const READ_MS_MAX = 600_000;

interface Options {
  speed?: number;
  maxIdle?: number;
  raw?: boolean;
  save?: string;
}

function factor(text: string): number {
  const value = Number(text);
  if (!(value > 0 && value < Infinity)) throw new InvalidArgumentError("Expected a number above 0.");
  return value;
}

export const sessions = defineCommand<[(typeof ACTIONS)[number], string, Options]>(
  "List a robot's shell sessions, or play a session's recording. Recordings need the role admin.",
  (command) =>
    command
      .argument("<action>", ACTIONS.join(", "), oneOf(ACTIONS))
      .argument("<id>", "For list: id of the robot; for play: id of the session")
      .option("--speed <factor>", "Playback speed", factor)
      .option("--max-idle <seconds>", "Shorten pauses to this length", factor)
      .option("--raw", "Print the whole recording immediately, without timing")
      .option("--save <file>", "Write the recording in asciinema format; - is stdout"),
  async (context, action, id, options) => {
    if (action === "list") return list(context, id);
    await play(context, await context.client(), id, options);
  },
  [
    "rf robots sessions list rob_…",
    "rf robots sessions play shl_… --speed 2 --max-idle 1",
    "rf robots sessions play shl_… --save session.cast && asciinema play session.cast",
  ],
);

const list = (context: Context, robot_id: string): Promise<void> =>
  printList(context, "listShellSessions", {
    params: { id: robot_id },
    empty: "No shell sessions on this robot yet.",
    columns: [
      { title: "ID", value: ({ id }) => id },
      { title: "STARTED", value: ({ started_at }) => relative(started_at, context.now()) },
      { title: "BY", value: ({ actor }) => actor.name ?? actor.id ?? actor.type },
      { title: "APP", value: ({ app }) => app ?? "-" },
      { title: "PROGRAM", value: ({ program }) => program ?? "login shell" },
      { title: "STATUS", value: ({ status }) => context.out.status(status) },
      { title: "END", value: ({ exit_code, reason }) => (exit_code === null ? (reason ?? "-") : `exit ${exit_code}`) },
      { title: "FROM", value: ({ ip }) => ip, wide: true },
      { title: "OUTPUT", value: ({ output_bytes }) => output_bytes, wide: true },
      { title: "RECORDING", value: ({ recording }) => recording.status, wide: true },
    ],
  });

async function play(context: Context, client: Client, id: string, options: Options): Promise<void> {
  const { save } = options;
  const signal = context.interruptible();
  const { body } = await requestBody(client, fillPath(paths.getShellRecording[1], { id }), { signal, timeout_ms: READ_MS_MAX });
  const content = addAbortSignal(signal, Readable.fromWeb(body));
  try {
    if (save === "-") await pipeline(content, process.stdout, { end: false, signal });
    else if (save !== undefined) {
      await writeWhole(save, (sink) => pipeline(content, sink, { signal }));
      context.out.note(plain(`Saved to ${save}.`));
    } else await show(context, content, options, signal);
  } catch (error) {
    // After Ctrl-C, throw the signal's reason instead of the error about the incomplete body.
    signal.throwIfAborted();
    throw error;
  }
}

async function show({ clock }: Context, content: Readable, { speed = 1, maxIdle, raw }: Options, signal: AbortSignal): Promise<void> {
  const start = clock.monotonic();
  let [played, at] = [0, 0];
  try {
    for await (const event of events(content)) {
      signal.throwIfAborted();
      if (raw !== true) {
        const idle = event.seconds - at;
        played += Math.min(idle, maxIdle ?? idle);
        at = event.seconds;
        const wait_ms = (played * 1_000) / speed - (clock.monotonic() - start);
        if (wait_ms > 0) await clock.sleep(wait_ms, signal);
        signal.throwIfAborted();
      }
      if (event.kind === "o" && !process.stdout.write(event.text)) await once(process.stdout, "drain", { signal });
    }
  } finally {
    if (process.stdout.isTTY) process.stdout.write("\u001b[0m\u001b[?25h\n");
  }
}

export interface RecordedEvent {
  /** Seconds since the shell was opened. */
  seconds: number;
  /** `o`: output; `r`: resize; `m`: marker. */
  kind: string;
  text: string;
}

/** Parses the events of an asciinema v2 recording, one per line; other lines are skipped. */
export async function* events(content: Readable): AsyncGenerator<RecordedEvent> {
  const lines = createInterface({ input: content, crlfDelay: Infinity });
  // If the content fails between two lines, the next read throws. This listener prevents an uncaught error event.
  lines.on("error", () => {});
  for await (const line of lines) {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      // The last line of a recording that is still being written is incomplete.
      continue;
    }
    const [seconds, kind, text] = Array.isArray(value) ? (value as unknown[]) : [];
    if (typeof seconds === "number" && typeof kind === "string" && typeof text === "string") yield { seconds, kind, text };
  }
}
