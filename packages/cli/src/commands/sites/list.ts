import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { isFiltered, type LimitOption, limitOption, readList } from "../../lists.ts";

interface Options extends LimitOption {
  search?: string;
}

export const define: Define = (command, act) => {
  limitOption(command).option("--search <text>", "Only sites whose name contains this text, ignoring case").action(act<[Options]>(run));
};

async function run(context: Context, options: Options): Promise<void> {
  const { out } = context;
  const query = { q: options.search };
  const answer = await readList(await context.client(), "listSites", options.limit, { query });
  await out.result(answer, () => {
    if (answer.items.length === 0)
      return out.note(isFiltered(query) ? "No matching sites." : "No sites yet. Create one: rf sites create <name>");
    return out.table(answer.items, [
      { title: "ID", value: ({ id }) => id },
      { title: "NAME", value: ({ name }) => name },
      { title: "ROBOTS", value: ({ robot_count }) => robot_count },
      { title: "ONLINE", value: ({ online_count }) => online_count },
      { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
    ]);
  });
}
