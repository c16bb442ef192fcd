import { DEPLOYMENT_STATUSES, type DeploymentStatus } from "@roamfleet/protocol";
import { Option } from "commander";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { isFiltered, type LimitOption, limitOption, readList } from "../../lists.ts";
import { readTime, type TimeOption } from "../../logs/options.ts";

interface Options extends LimitOption {
  status?: DeploymentStatus;
  robot?: string;
  fleet?: string;
  since?: TimeOption;
  following?: boolean;
}

export const define: Define = (command, act) => {
  limitOption(command)
    .addOption(new Option("--status <status>", "Only deployments in this status").choices(DEPLOYMENT_STATUSES))
    .option("--robot <id>", "Only deployments to this robot")
    .option("--fleet <id>", "Only deployments to this fleet")
    .option("--since <time>", "Only deployments created since: 10m, 2h, 3d ago, or RFC 3339", readTime)
    .option("--following", "Include automatic deployments to robots that follow their fleet; with --robot they are always listed")
    .action(act<[Options]>(run));
};

async function run(context: Context, options: Options): Promise<void> {
  const { out } = context;
  const query = { status: options.status, robot_id: options.robot, fleet_id: options.fleet, since: options.since?.(context.now()) };
  const cause = options.following === true || options.robot !== undefined ? undefined : ("request" as const);
  const answer = await readList(await context.client(), "listDeployments", options.limit, { query: { ...query, cause } });
  await out.result(answer, () => {
    if (answer.items.length === 0)
      return out.note(
        isFiltered(query) ? "No matching deployments." : "No deployments yet. Deploy a release: rf deploy <release> --fleet <id>",
      );
    return out.table(answer.items, [
      { title: "ID", value: ({ id }) => id },
      { title: "RELEASE", value: ({ release }) => release.tag },
      { title: "TARGET", value: ({ robot_id, fleet_id }) => robot_id ?? fleet_id },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "APPLIED", value: ({ counts }) => `${counts.applied}/${counts.total}` },
      { title: "REASON", value: ({ reason }) => reason ?? "" },
      { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()) },
      { title: "APP", value: ({ release }) => release.app, wide: true },
      { title: "FAILED", value: ({ counts }) => counts.failed, wide: true },
      { title: "ROLLED BACK", value: ({ counts }) => counts.rolled_back, wide: true },
      { title: "BY", value: ({ created_by }) => created_by.name ?? created_by.type, wide: true },
      { title: "FINISHED", value: ({ finished_at }) => (finished_at === null ? "–" : relative(finished_at, context.now())), wide: true },
    ]);
  });
}
