import { type AdminOption, adminOption, asAdmin } from "../../admin.ts";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { type LimitOption, limitOption, readList } from "../../lists.ts";

export const define: Define = (command, act) => {
  adminOption(limitOption(command)).action(act<[LimitOption & AdminOption]>(run));
};

async function run(context: Context, options: LimitOption & AdminOption): Promise<void> {
  const { out } = context;
  const answer = await asAdmin(context, options, (client) => readList(client, "listOrgs", options.limit, {}));
  await out.result(answer, () => {
    if (answer.items.length === 0) return out.note("No orgs yet. Create one: rf orgs create <name>");
    return out.table(answer.items, [
      { title: "ID", value: ({ id }) => id },
      { title: "NAME", value: ({ name }) => name },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()) },
      { title: "EMAIL", value: ({ email }) => email ?? "–", wide: true },
    ]);
  });
}
