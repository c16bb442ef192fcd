import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { type LimitOption, limitOption, readList } from "../../lists.ts";

export const define: Define = (command, act) => {
  limitOption(command).action(act<[LimitOption]>(run));
};

async function run(context: Context, options: LimitOption): Promise<void> {
  const { out } = context;
  const answer = await readList(await context.client(), "listEnrollmentKeys", options.limit, {});
  await out.result(answer, () => {
    if (answer.items.length === 0) return out.note("No enrolment keys yet. Make one: rf keys new --site <id> --fleet <id>");
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
