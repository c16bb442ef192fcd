import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { isFiltered, type LimitOption, limitOption, readList } from "../../lists.ts";

interface Options extends LimitOption {
  site?: string;
  search?: string;
}

export const define: Define = (command, act) => {
  limitOption(command)
    .option("--site <id>", "Only fleets at this site")
    .option("--search <text>", "Only fleets whose name contains this text, ignoring case")
    .action(act<[Options]>(run));
};

async function run(context: Context, options: Options): Promise<void> {
  const { out } = context;
  const query = { site_id: options.site, q: options.search };
  const answer = await readList(await context.client(), "listFleets", options.limit, { query });
  await out.result(answer, () => {
    if (answer.items.length === 0)
      return out.note(isFiltered(query) ? "No matching fleets." : "No fleets yet. Create one: rf fleets create <name> --site <id>");
    return out.table(answer.items, [
      { title: "ID", value: ({ id }) => id },
      { title: "NAME", value: ({ name }) => name },
      { title: "SITE", value: ({ site_id }) => site_id },
      { title: "ROBOTS", value: ({ robot_count }) => robot_count },
      { title: "ONLINE", value: ({ online_count }) => online_count },
      {
        title: "DESIRED",
        value: ({ desired }) =>
          Object.entries(desired)
            .map(([app, { tag }]) => `${app} ${tag}`)
            .join(", ") || "–",
      },
      { title: "FOLLOWS", value: ({ follow }) => (follow ? "yes" : "no"), wide: true },
      { title: "CONFIG", value: ({ config_revision }) => config_revision ?? "–", wide: true },
      { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
    ]);
  });
}
