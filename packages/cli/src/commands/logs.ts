import type { Client } from "@roamfleet/sdk";
import { collect, type CommandDefinition, defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { exportLogs } from "../logs/export.ts";
import { FleetNames, followLogs } from "../logs/follow.ts";
import {
  checkOptions,
  logFilterOptions,
  logLine,
  type LogOptions,
  logOptions,
  type LogRecord,
  noteMore,
  readLogs,
} from "../logs/records.ts";
import { type SearchOptions, searchLogs } from "../logs/search.ts";
import { labelQuery } from "../labels.ts";

const defineLogs = (of: "robot" | "fleet", description: string, examples: readonly string[]): CommandDefinition =>
  defineCommand<[string, LogOptions]>(
    description,
    (command) => logOptions(command.argument("<id>", `ID of the ${of}`)),
    async (context, id, options) => {
      checkOptions(options);
      const client = await context.client();
      if (options.export !== undefined) return exportLogs(context, client, `${of}s`, id, options);
      if (options.follow === true) return (of === "robot" ? followRobot : followFleet)(context, client, id, options);
      const answer = await readLogs(context, client, of === "robot" ? "listRobotLogs" : "listFleetLogs", id, options);
      const names = of === "robot" ? undefined : await readNames(context, client, id, answer.items);
      await context.out.result(answer, () => {
        for (const record of answer.items) print(context, record, names?.get(record.robot_id));
        noteMore(context, answer, options);
      });
    },
    examples,
  );

export const robotLogs = defineLogs(
  "robot",
  "Show the latest log records of a robot, search them, or follow them until interrupted. If the robot is not connected, --follow prints `agent offline`.",
  [
    "rf robots logs rob_…",
    "rf robots logs rob_… --since 2h --level warn --grep timeout",
    "rf robots logs rob_… --follow --json | jq .message",
    "rf robots logs rob_… --since 2030-01-01T00:00:00Z --until 2030-01-02T00:00:00Z --export day.ndjson",
  ],
);

export const fleetLogs = defineLogs(
  "fleet",
  "Show the latest log records of a fleet's robots, search them, or follow all of them until interrupted. Robots that come online are included; offline robots are listed once.",
  ["rf fleets logs fleet_… --follow --level warn", "rf fleets logs fleet_… --since 1h --export fleet.ndjson"],
);

export const searchedLogs = defineCommand<[SearchOptions]>(
  "Search the logs of robots: the newest matching records, oldest first. Without --since, the last hour. To follow logs, use rf fleets logs or rf robots logs.",
  (command) =>
    logFilterOptions(
      command
        .option("--all", "Search all robots that you may see")
        .option("--site <id>", "Search the robots of this site")
        .option("--fleet <id>", "Search the robots of this fleet")
        .option("--label <key=value>", "Search robots with this label (repeatable; all must match)", collect),
    ),
  async (context, options) => {
    const answer = await searchLogs(context, await context.client(), options, options.label?.map(labelQuery));
    await context.out.result(answer, () => {
      for (const record of answer.items.toReversed()) print(context, record, record.robot_name);
      if (answer.items.length === 0) context.out.note("No matching log records.");
      else if (answer.next_cursor !== null && options.limit === undefined) context.out.note("Older records exist: use --limit or --until.");
    });
  },
  ["rf logs --all --grep timeout --level warn", "rf logs --site site_… --since 2h --level error", "rf logs --fleet fleet_… --json"],
);

/** Prints a record. The robot's name, if given, precedes it in a color that is stable for the robot. */
function print({ out }: Context, record: LogRecord, name?: string): void {
  out.line(logLine(out, record, name === undefined ? {} : { robot: out.paintAs(record.robot_id, name) }));
}

/**
 * Returns the names of the robots in these records, by robot id. Undefined without records, and for structured output, which contains ids
 * only.
 */
async function readNames(
  context: Context,
  client: Client,
  fleet_id: string,
  records: readonly LogRecord[],
): Promise<Map<string, string> | undefined> {
  if (context.structured || records.length === 0) return undefined;
  const names = await FleetNames.read(context, client, fleet_id);
  const named = new Map<string, string>();
  for (const { robot_id } of records) if (!named.has(robot_id)) named.set(robot_id, await names.nameOf(robot_id));
  return named;
}

async function followRobot(context: Context, client: Client, robot_id: string, options: LogOptions): Promise<void> {
  await followLogs(
    context,
    {
      many: false,
      open: (query, signal) => client.stream("logs", { robot_id, query, signal }),
      print: (record) => print(context, record),
    },
    options,
  );
}

async function followFleet(context: Context, client: Client, fleet_id: string, options: LogOptions): Promise<void> {
  // Structured output contains robot ids, so it needs no names.
  const names = context.structured ? undefined : await FleetNames.read(context, client, fleet_id);
  names?.noteOffline();
  const since_ms = context.now().getTime();
  await followLogs(
    context,
    {
      many: true,
      open: (query, signal) => client.stream("fleet_logs", { fleet_id, query, signal }),
      print: async (record) => {
        print(context, record, await names?.nameOfSender(record.robot_id, Date.parse(record.received_at), since_ms));
      },
    },
    options,
  );
}
