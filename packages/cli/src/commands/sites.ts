import { defineCommand, requestCommand } from "../command.ts";
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

export const create = requestCommand(
  undefined,
  (command) => command.argument("<name>", "Name of the site"),
  (client, context, name: string) => client.createSite({ body: { name }, idempotency_key: context.idempotencyKey() }),
  ({ data }) => [line`Created site ${data.name}: ${data.id}`, line`Next: rf fleets create <name> --site ${data.id}`],
);

export const rename = requestCommand(
  undefined,
  (command) => command.argument("<id>", "ID of the site").argument("<name>", "New name"),
  (client, _, id: string, name: string) => client.updateSite({ params: { id }, body: { name } }),
  ({ data }) => line`Renamed site ${data.id} to ${data.name}.`,
  ["rf sites rename site_… 'Berlin north'"],
);

export const remove = requestCommand(
  "Remove a site that has no fleets.",
  (command) => command.argument("<id>", "ID of the site"),
  (client, _, id: string) => client.deleteSite({ params: { id } }),
  ({ data }) => line`Removed site ${data.name}: ${data.id}`,
);
