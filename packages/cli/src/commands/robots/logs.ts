import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { logLine } from "../../log-line.ts";
import { checkOptions, type LogOptions, logOptions } from "../../logs/options.ts";
import { noteMore, readLogs } from "../../logs/show.ts";

export const define: Define = (command, act) => {
  logOptions(
    command
      .description(
        "Show the latest log records of a robot, search them, or follow them until interrupted. If the robot is not connected, --follow prints `agent offline`.",
      )
      .argument("<id>", "Id of the robot"),
  ).action(act<[string, LogOptions]>(run));
  addExamples(command, [
    "rf robots logs rob_…",
    "rf robots logs rob_… --since 2h --level warn --grep timeout",
    "rf robots logs rob_… --follow --json | jq .message",
    "rf robots logs rob_… --since 2030-01-01T00:00:00Z --until 2030-01-02T00:00:00Z --export day.ndjson",
  ]);
};

async function run(context: Context, id: string, options: LogOptions): Promise<void> {
  checkOptions(options);
  const client = await context.client();
  if (options.export !== undefined) return (await import("../../logs/export.ts")).exportLogs(context, client, "robots", id, options);
  if (options.follow === true) {
    const { followLogs } = await import("../../logs/follow.ts");
    const print = (record: Parameters<typeof logLine>[1]): void => context.out.line(logLine(context.out, record));
    return followLogs(
      context,
      { many: false, print, open: (query, signal) => client.stream("logs", { robot_id: id, query, signal }) },
      options,
    );
  }
  const answer = await readLogs(context, client, "listRobotLogs", id, options);
  await context.out.result(answer, () => {
    for (const record of answer.items) context.out.line(logLine(context.out, record));
    noteMore(context, answer, options);
  });
}
