import { Option } from "commander";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { type LimitOption, limitOption, readList } from "../../lists.ts";
import { scopesText } from "../../scopes.ts";

const STATUSES = ["active", "expired", "revoked"] as const;

interface Options extends LimitOption {
  status?: (typeof STATUSES)[number];
  user?: string;
}

export const define: Define = (command, act) => {
  limitOption(command)
    .addOption(new Option("--status <status>", "Only tokens in this status").choices(STATUSES))
    .option("--user <id>", "Only tokens of this user")
    .action(act<[Options]>(run));
};

async function run(context: Context, options: Options): Promise<void> {
  const { out } = context;
  const query = { status: options.status, user_id: options.user };
  const answer = await readList(await context.client(), "listTokens", options.limit, { query });
  await out.result(answer, () => {
    if (answer.items.length === 0) return out.note("No matching tokens. Create one: rf tokens create <label> --role <role>");
    return out.table(answer.items, [
      { title: "ID", value: ({ id }) => id },
      { title: "LABEL", value: ({ label }) => label ?? "" },
      { title: "TOKEN", value: ({ prefix }) => `${prefix}…` },
      { title: "ROLE", value: ({ role }) => role },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "EXPIRES", value: ({ expires_at }) => relative(expires_at, context.now()) },
      { title: "LAST USED", value: ({ last_used_at }) => relative(last_used_at, context.now()) },
      { title: "SCOPES", value: ({ scopes }) => scopesText(scopes), wide: true },
      { title: "USER", value: ({ user_id }) => user_id ?? "–", wide: true },
      { title: "BY", value: ({ created_by }) => created_by?.name ?? created_by?.type ?? "–", wide: true },
      { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
    ]);
  });
}
