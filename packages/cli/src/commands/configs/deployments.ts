import { DEPLOYMENT_STATUSES, type DeploymentStatus } from "@roamfleet/protocol";
import { Option } from "commander";
import type { Define } from "../../command.ts";
import { namespaceOption } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { isFiltered, type LimitOption, limitOption, readList } from "../../lists.ts";

interface Options extends LimitOption {
  status?: DeploymentStatus;
  robot?: string;
  fleet?: string;
  namespace?: string;
}

export const define: Define = (command, act) => {
  limitOption(namespaceOption(command, "Only deployments of this namespace"))
    .addOption(new Option("--status <status>", "Only deployments in this status").choices(DEPLOYMENT_STATUSES))
    .option("--robot <id>", "Only deployments to this robot")
    .option("--fleet <id>", "Only deployments to this fleet")
    .action(act<[Options]>(run));
};

async function run(context: Context, options: Options): Promise<void> {
  const { out } = context;
  const query = { namespace: options.namespace, status: options.status, robot_id: options.robot, fleet_id: options.fleet };
  const answer = await readList(await context.client(), "listConfigDeployments", options.limit, { query });
  await out.result(answer, () => {
    if (answer.items.length === 0)
      return out.note(
        isFiltered(query)
          ? "No matching config deployments."
          : "No config deployments yet. Set and deploy a value: rf configs set <key> <value> --fleet <id>",
      );
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
