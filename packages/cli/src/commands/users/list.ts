import { ROLES, type Role } from "@roamfleet/protocol";
import { Option } from "commander";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { isFiltered, type LimitOption, limitOption, readList } from "../../lists.ts";
import { scopesText } from "../../scopes.ts";

interface Options extends LimitOption {
  role?: Role;
}

export const define: Define = (command, act) => {
  limitOption(command).addOption(new Option("--role <role>", "Only users with this role").choices(ROLES)).action(act<[Options]>(run));
};

async function run(context: Context, options: Options): Promise<void> {
  const { out } = context;
  const query = { role: options.role };
  const answer = await readList(await context.client(), "listUsers", options.limit, { query });
  await out.result(answer, () => {
    if (answer.items.length === 0)
      return out.note(
        isFiltered(query) ? "No matching users." : "No users yet. Add one: rf users create <email> --name <name> --role <role>",
      );
    return out.table(answer.items, [
      { title: "ID", value: ({ id }) => id },
      { title: "EMAIL", value: ({ email }) => email },
      { title: "NAME", value: ({ name }) => name },
      { title: "ROLE", value: ({ role }) => role },
      { title: "LAST SEEN", value: ({ last_seen_at }) => relative(last_seen_at, context.now()) },
      { title: "ROLES", value: ({ grants }) => grants.map(({ role, scopes }) => `${role}: ${scopesText(scopes)}`).join("; "), wide: true },
      { title: "ADDED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
    ]);
  });
}
