import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { isFiltered, readList } from "../../lists.ts";
import { type TimelineOptions, timelineOptions, timelineQuery } from "../../timeline-options.ts";

export const define: Define = (command, act) => {
  timelineOptions(
    command
      .description("Show a robot's connections, deployments and configs, newest first: 200 entries, or the number in --limit.")
      .argument("<id>", "Id of the robot"),
  ).action(act<[string, TimelineOptions]>(run));
  addExamples(command, ["rf robots timeline rob_… --since 1d", "rf robots timeline rob_… --kind robot.disconnected --limit 1000"]);
};

async function run(context: Context, id: string, options: TimelineOptions): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const args = { params: { id }, query: timelineQuery(options, context.now()) };
  // Without a limit the service returns the newest entries in one page.
  const answer =
    options.limit === undefined ? await client.listRobotTimeline(args) : await readList(client, "listRobotTimeline", options.limit, args);
  await out.result(answer, async () => {
    if (answer.items.length === 0) return out.note(isFiltered(args.query) ? "No matching entries." : "No entries for this robot yet.");
    await out.table(answer.items, [
      { title: "TIME", value: ({ at }) => at },
      { title: "AGO", value: ({ at }) => out.paint("quiet", relative(at, context.now())) },
      { title: "KIND", value: ({ kind }) => kind },
      { title: "BY", value: ({ actor }) => actor.name ?? actor.type },
      { title: "WHAT", value: ({ summary }) => summary },
    ]);
    if (answer.next_cursor !== null && options.limit === undefined) out.note("Older entries exist: use --limit, --since or --kind.");
  });
}
