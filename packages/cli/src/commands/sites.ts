import { defineCommand } from "../command.ts";
import { relative } from "../duration.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import { line } from "../text.ts";

export const list = defineCommand<[LimitOption & { search?: string }]>(
  undefined,
  (command) => limitOption(command).option("--search <text>", "Only sites whose name contains this text, ignoring case"),
  (context, { limit, search }) =>
    printList(context, "listSites", {
      limit,
      query: { q: search },
      no_match: "No matching sites.",
      empty: "No sites yet. Create one: rf sites create <name>",
      columns: [
        { title: "ID", value: ({ id }) => id },
        { title: "NAME", value: ({ name }) => name },
        { title: "ROBOTS", value: ({ robot_count }) => robot_count },
        { title: "ONLINE", value: ({ online_count }) => online_count },
        { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
      ],
    }),
);

export const create = defineCommand<[string]>(
  undefined,
  (command) => command.argument("<name>", "Name of the site"),
  async (context, name) => {
    const answer = await (await context.client()).createSite({ body: { name }, idempotency_key: context.idempotencyKey() });
    await context.out.result(answer, () => {
      context.out.line(line`Created site ${answer.data.name}: ${answer.data.id}`);
      context.out.line(line`Next: rf fleets create <name> --site ${answer.data.id}`);
    });
  },
);

export const rename = defineCommand<[string, string]>(
  undefined,
  (command) => command.argument("<id>", "Id of the site").argument("<name>", "New name"),
  async (context, id, name) => {
    const answer = await (await context.client()).updateSite({ params: { id }, body: { name } });
    await context.out.result(answer, () => context.out.line(line`Renamed site ${id} to ${answer.data.name}.`));
  },
  ["rf sites rename site_… 'Berlin north'"],
);

export const remove = defineCommand<[string]>(
  "Remove a site that has no fleets.",
  (command) => command.argument("<id>", "Id of the site"),
  async (context, id) => {
    const answer = await (await context.client()).deleteSite({ params: { id } });
    await context.out.result(answer, () => context.out.line(line`Removed site ${answer.data.name}: ${id}`));
  },
);
