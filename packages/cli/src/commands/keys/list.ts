import { Option } from "commander";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { isFiltered, type LimitOption, limitOption, readList } from "../../lists.ts";

const STATUSES = ["active", "expired", "exhausted", "revoked"] as const;

interface Options extends LimitOption {
  status?: (typeof STATUSES)[number];
  fleet?: string;
  site?: string;
}

export const define: Define = (command, act) => {
  limitOption(command)
    .addOption(new Option("--status <status>", "Only keys in this status").choices(STATUSES))
    .option("--fleet <id>", "Only keys for this fleet")
    .option("--site <id>", "Only keys for this site")
    .action(act<[Options]>(run));
};

async function run(context: Context, options: Options): Promise<void> {
  const { out } = context;
  const query = { status: options.status, fleet_id: options.fleet, site_id: options.site };
  const answer = await readList(await context.client(), "listEnrollmentKeys", options.limit, { query });
  await out.result(answer, () => {
    if (answer.items.length === 0)
      return out.note(
        isFiltered(query) ? "No matching enrollment keys." : "No enrollment keys yet. Create one: rf keys new --site <id> --fleet <id>",
      );
    return out.table(answer.items, [
      { title: "ID", value: ({ id }) => id },
      { title: "LABEL", value: ({ label }) => label ?? "" },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "USES", value: ({ uses, max_uses }) => `${uses}/${max_uses === 0 ? "∞" : max_uses}` },
      { title: "EXPIRES", value: ({ expires_at }) => relative(expires_at, context.now()) },
      { title: "FLEET", value: ({ fleet_id }) => fleet_id },
      { title: "SITE", value: ({ site_id }) => site_id, wide: true },
      { title: "BY", value: ({ created_by }) => created_by ?? "–", wide: true },
      { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()), wide: true },
    ]);
  });
}
