import type { Client } from "@roamfleet/sdk";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { logLine } from "../../log-line.ts";
import { checkOptions, type LogOptions, logOptions } from "../../logs/options.ts";
import { type LogRecord, noteMore, readLogs } from "../../logs/show.ts";
import type { Output } from "../../output.ts";

export const define: Define = (command, act) => {
  logOptions(
    command
      .description(
        "Show the latest log records of a fleet's robots, search them, or follow all of them until interrupted. Robots that come online are included; offline robots are listed once.",
      )
      .argument("<id>", "Id of the fleet"),
  ).action(act<[string, LogOptions]>(run));
  addExamples(command, ["rf fleets logs fleet_… --follow --level warn", "rf fleets logs fleet_… --since 1h --export fleet.ndjson"]);
};

async function run(context: Context, id: string, options: LogOptions): Promise<void> {
  checkOptions(options);
  const client = await context.client();
  if (options.export !== undefined) return (await import("../../logs/export.ts")).exportLogs(context, client, "fleets", id, options);
  if (options.follow === true) return follow(context, client, id, options);
  const answer = await readLogs(context, client, "listFleetLogs", id, options);
  const names = await readNames(context, client, id, answer.items);
  await context.out.result(answer, () => {
    for (const record of answer.items) printRecord(context.out, record, names?.get(record.robot_id));
    noteMore(context, answer, options);
  });
}

/** Robot names for these records; undefined for structured output, which contains ids. */
async function readNames(
  context: Context,
  client: Client,
  fleet_id: string,
  records: readonly LogRecord[],
): Promise<Map<string, string> | undefined> {
  if (context.structured || records.length === 0) return undefined;
  const { FleetNames } = await import("../../logs/fleet-names.ts");
  const names = await FleetNames.read(context, client, fleet_id);
  const named = new Map<string, string>();
  for (const { robot_id } of records) if (!named.has(robot_id)) named.set(robot_id, await names.nameOf(robot_id));
  return named;
}

/** Prefixes the robot's name in its own color. */
const printRecord = (out: Output, record: LogRecord, name = record.robot_id): void =>
  out.line(logLine(out, record, { robot: out.paintAs(record.robot_id, name) }));

async function follow(context: Context, client: Client, fleet_id: string, options: LogOptions): Promise<void> {
  const { followLogs } = await import("../../logs/follow.ts");
  const { FleetNames } = await import("../../logs/fleet-names.ts");
  // Structured output contains ids.
  const names = context.structured ? undefined : await FleetNames.read(context, client, fleet_id);
  names?.noteOffline();
  const since_ms = context.now().getTime();
  const { out } = context;
  await followLogs(
    context,
    {
      many: true,
      open: (query, signal) => client.stream("fleet_logs", { fleet_id, query, signal }),
      print: async (record) => {
        printRecord(out, record, await names?.heard(record.robot_id, Date.parse(record.received_at), since_ms));
      },
    },
    options,
  );
}
