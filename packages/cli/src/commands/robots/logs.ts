import { CLOSE } from "@robofleet/protocol/paths";
import type { Body, Client, Ending } from "@robofleet/sdk";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { Failure } from "../../failure.ts";
import { logLine } from "../../log-line.ts";
import { plain } from "../../text.ts";

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
  const failure = endingFailure(stream.ending ?? { code: 1006, reason: "" });
  if (failure !== undefined) throw failure;
}

function parseRecord(text: string): LogRecord | undefined {
  try {
    return JSON.parse(text) as LogRecord;
  } catch {
    return undefined;
  }
}

/** A stream that ended by itself, in words. Records were printed to stdout, so no document of an error goes there. */
function endingFailure({ code, reason }: Ending): Failure | undefined {
  const ended = (exit_code: Failure["exit_code"], message: string, ...hints: string[]): Failure =>
    new Failure(exit_code, message, { hints, document: undefined });
  switch (code) {
    case 1000:
      return undefined;
    case CLOSE.agent_offline:
      return new Failure(EXIT.agent_offline, "agent offline", {
        bare: true,
        document: undefined,
        hints: ["`rf robots show <id>` tells when it was last seen."],
      });
    case CLOSE.token_revoked:
      return ended(EXIT.auth, "the token was revoked or has expired", "Run `rf login` with another one.");
    case CLOSE.role_lost:
      return ended(EXIT.auth, "the role that may read these logs was taken away");
    case CLOSE.robot_removed:
      return ended(EXIT.not_found, "the robot was removed");
    case CLOSE.ended_by_robot:
      return ended(EXIT.error, `the robot ended the stream${reason === "" ? "" : `: ${reason}`}`);
    case CLOSE.too_many:
      return ended(EXIT.error, "there are too many streams already", "Close another one and try again.");
    case CLOSE.draining:
      return ended(EXIT.error, "the server is restarting", "Run the command again in a moment.");
    case 1006:
      return ended(EXIT.error, "the connection to the server was cut", "Run the command again; the last 100 records are repeated.");
    default:
      return ended(EXIT.error, `the server ended the stream (${code}${reason === "" ? "" : `, ${reason}`})`);
  }
}
