import { addExamples, type Define } from "../command.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { readList } from "../lists.ts";
import { type TimelineOptions, timelineOptions, timelineQuery } from "../timeline-options.ts";

/** Entries shown without --limit. */
const SHOWN = 50;

interface Options extends TimelineOptions {
  robot?: string;
  fleet?: string;
}

export const define: Define = (command, act) => {
  timelineOptions(
    command
      .description(`Show events of your org's robots, newest first: ${SHOWN} entries, or the number in --limit.`)
      .option("--robot <id>", "Only entries of this robot")
      .option("--fleet <id>", "Only entries of this fleet's robots"),
  ).action(act<[Options]>(run));
  addExamples(command, ["rf timeline --since 1h", "rf timeline --kind robot.moved --fleet fleet_…"]);
};

async function run(context: Context, options: Options): Promise<void> {
  const { out } = context;
  const query = { ...timelineQuery(options, context.now()), robot_id: options.robot, fleet_id: options.fleet };
  const answer = await readList(await context.client(), "listTimeline", options.limit ?? SHOWN, { query });
  await out.result(answer, async () => {
    if (answer.items.length === 0) return out.note("No matching entries.");
    await out.table(answer.items, [
      { title: "TIME", value: ({ at }) => at },
      { title: "AGO", value: ({ at }) => out.paint("quiet", relative(at, context.now())) },
      { title: "ROBOT", value: ({ robot_name }) => robot_name },
      { title: "KIND", value: ({ kind }) => kind },
      { title: "BY", value: ({ actor }) => actor.name ?? actor.type },
      { title: "WHAT", value: ({ summary }) => summary },
      { title: "ROBOT ID", value: ({ robot_id }) => robot_id, wide: true },
    ]);
    if (answer.next_cursor !== null && options.limit === undefined) out.note("More entries exist: use --limit, --since or --kind.");
  });
}
