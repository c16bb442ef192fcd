import type { Command } from "commander";
import { defineCommand } from "../command.ts";
import { readTime, relative, type TimeOption } from "../duration.ts";
import { isFiltered, type LimitOption, limitOption, readList } from "../lists.ts";

/** Entries shown without --limit. */
const SHOWN = 50;

interface Options extends TimelineOptions {
  robot?: string;
  fleet?: string;
}

export const timeline = defineCommand<[Options]>(
  `Show events of your org's robots, newest first: ${SHOWN} entries, or the number in --limit.`,
  (command) =>
    timelineOptions(
      command.option("--robot <id>", "Only entries of this robot").option("--fleet <id>", "Only entries of this fleet's robots"),
    ),
  async (context, options) => {
    const { out } = context;
    const query = { ...timelineQuery(options, context.now()), robot_id: options.robot, fleet_id: options.fleet };
    // Structured output contains all entries, as for every list.
    const limit = options.limit ?? (context.structured ? undefined : SHOWN);
    const answer = await readList(await context.client(), "listTimeline", limit, { query });
    await out.result(answer, async () => {
      if (answer.items.length === 0) return out.note("No matching entries.");
      await out.table(answer.items, [
        { title: "TIME", value: ({ at }) => at },
        { title: "AGO", value: ({ at }) => out.paint("quiet", relative(at, context.now())) },
        { title: "ROBOT", value: ({ robot_name }) => robot_name },
        { title: "KIND", value: ({ kind }) => kind },
        { title: "BY", value: ({ actor }) => actor.name ?? actor.type },
        { title: "SUMMARY", value: ({ summary }) => summary },
        { title: "ROBOT ID", value: ({ robot_id }) => robot_id, wide: true },
      ]);
      if (answer.next_cursor !== null && options.limit === undefined) out.note("More entries exist: use --limit, --since or --kind.");
    });
  },
  ["rf timeline --since 1h", "rf timeline --kind robot.moved --fleet fleet_…"],
);

export const robotTimeline = defineCommand<[string, TimelineOptions]>(
  "Show a robot's connections, deployments and configs, newest first: 200 entries, or the number in --limit.",
  (command) => timelineOptions(command.argument("<id>", "ID of the robot")),
  async (context, id, options) => {
    const { out } = context;
    const client = await context.client();
    const args = { params: { id }, query: timelineQuery(options, context.now()) };
    // Without a limit the service returns the newest entries in one page. Structured output contains all entries, as for every list.
    const answer =
      options.limit === undefined && !context.structured
        ? await client.listRobotTimeline(args)
        : await readList(client, "listRobotTimeline", options.limit, args);
    await out.result(answer, async () => {
      if (answer.items.length === 0) return out.note(isFiltered(args.query) ? "No matching entries." : "No entries for this robot yet.");
      await out.table(answer.items, [
        { title: "TIME", value: ({ at }) => at },
        { title: "AGO", value: ({ at }) => out.paint("quiet", relative(at, context.now())) },
        { title: "KIND", value: ({ kind }) => kind },
        { title: "BY", value: ({ actor }) => actor.name ?? actor.type },
        { title: "SUMMARY", value: ({ summary }) => summary },
      ]);
      if (answer.next_cursor !== null && options.limit === undefined) out.note("Older entries exist: use --limit, --since or --kind.");
    });
  },
  ["rf robots timeline rob_… --since 1d", "rf robots timeline rob_… --kind robot.disconnected --limit 1000"],
);

interface TimelineOptions extends LimitOption {
  kind?: string;
  since?: TimeOption;
  until?: TimeOption;
}

/** Options of both commands that show a timeline. */
const timelineOptions = (command: Command): Command =>
  limitOption(
    command
      .option("--kind <kind>", "Only entries of this kind, such as robot.connected or deployment.failed")
      .option("--since <time>", "Only entries since this time: an age such as 10m, 2h or 3d, or an RFC 3339 time", readTime)
      .option("--until <time>", "Only entries before this time", readTime),
  );

/** Returns the options as a query. */
const timelineQuery = ({ kind, since, until }: TimelineOptions, now: Date) => ({ kind, since: since?.(now), until: until?.(now) });
