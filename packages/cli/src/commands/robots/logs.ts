import type { Body, Client } from "@robofleet/sdk";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { logLine } from "../../log-line.ts";
import { streamFailure } from "../../stream-ending.ts";
import { plain } from "../../text.ts";

const WORDS = { right: "read these logs", again: "Run the command again; the last 100 records are repeated." };

type LogRecord = Body<"listRobotLogs">["items"][number];

interface Options {
  follow?: boolean;
}

export const define: Define = (command, act) => {
  command
    .description(
      "Show the latest log records of a robot, or follow them until interrupted. When the robot is not connected, --follow says `agent offline`.",
    )
    .argument("<id>", "Id of the robot")
    .option("--follow", "Print records as they come; with --json one a line")
    .action(act<[string, Options]>(run));
  addExamples(command, ["rf robots logs rob_…", "rf robots logs rob_… --follow --json | jq .message"]);
};

async function run(context: Context, id: string, options: Options): Promise<void> {
  const client = await context.client();
  if (options.follow) return follow(context, client, id);
  const answer = await client.listRobotLogs({ params: { id } });
  await context.out.result(answer, () => {
    if (answer.items.length === 0) context.out.note("No log records yet.");
    for (const record of answer.items) context.out.line(logLine(context.out, record));
  });
}

async function follow(context: Context, client: Client, robot_id: string): Promise<void> {
  const signal = context.interruptible();
  const stream = await client.stream("logs", { robot_id, signal });
  for await (const frame of stream) {
    if (signal.aborted) break;
    const text = frame.data.toString();
    const record = parseRecord(text);
    if (context.structured) await context.out.record(record ?? text);
    else context.out.line(record === undefined ? plain(text) : logLine(context.out, record));
  }
  if (signal.aborted) throw signal.reason;
  const failure = streamFailure(stream.ending ?? { code: 1006, reason: "" }, WORDS);
  if (failure !== undefined) throw failure;
}

function parseRecord(text: string): LogRecord | undefined {
  try {
    return JSON.parse(text) as LogRecord;
  } catch {
    return undefined;
  }
}
