import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { type LimitOption, limitOption, readList } from "../../lists.ts";

export const define: Define = (command, act) => {
  limitOption(command).action(act<[LimitOption]>(run));
};

async function run(context: Context, options: LimitOption): Promise<void> {
  const { out } = context;
  const answer = await readList(await context.client(), "listConfigDeployments", options.limit, {});
  await out.result(answer, () => {
    if (answer.items.length === 0)
      return out.note("No config deployments yet. Set and deploy a value: rf configs set <key> <value> --fleet <id>");
    return out.table(answer.items, [
      { title: "ID", value: ({ id }) => id },
      { title: "NAMESPACE", value: ({ namespace }) => namespace ?? "all" },
      { title: "TARGET", value: ({ robot_id, fleet_id }) => robot_id ?? fleet_id },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "APPLIED", value: ({ counts }) => `${counts.applied}/${counts.total}` },
      { title: "REASON", value: ({ reason }) => reason ?? "" },
      { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()) },
      { title: "FAILED", value: ({ counts }) => counts.failed, wide: true },
      { title: "BY", value: ({ created_by }) => created_by.name ?? created_by.type, wide: true },
    ]);
  });
}
