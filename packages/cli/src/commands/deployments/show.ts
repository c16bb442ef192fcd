import type { Body } from "@robofleet/sdk";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";

const TARGETS_SHOWN_MAX = 20;

export const define: Define = (command, act) => {
  command.argument("<id>", "Id of the deployment").action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const answer = await client.getDeployment({ params: { id } });
  await out.result(answer, async () => {
    showDeployment(context, answer.data);
    if (answer.data.wave_count > 1) await showWaves(context, (await client.listDeploymentWaves({ params: { id } })).items);
    const { items } = await client.listDeploymentTargets({ params: { id }, query: { limit: TARGETS_SHOWN_MAX } });
    if (items.length === 0) return;
    out.line();
    await out.table(items, [
      { title: "ROBOT", value: ({ robot_id }) => robot_id },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "WHY", value: ({ reason, waiting_for }) => reason ?? (waiting_for === null ? "" : `waits for ${waiting_for}`) },
      { title: "CHANGED", value: ({ updated_at }) => relative(updated_at, context.now()) },
    ]);
    const more = answer.data.counts.total - items.length;
    if (more > 0) out.line(`and ${more} more: rf api GET /api/deployments/${id}/targets`);
  });
}

async function showWaves(context: Context, waves: Body<"listDeploymentWaves">["items"]): Promise<void> {
  const { out } = context;
  out.line();
  await out.table(waves, [
    { title: "WAVE", value: ({ wave }) => wave + 1 },
    { title: "STATUS", value: ({ status }) => status },
    { title: "ROBOTS", value: ({ total }) => total },
    { title: "APPLIED", value: ({ applied }) => applied },
    { title: "FAILED", value: ({ failed, rolled_back }) => failed + rolled_back },
    { title: "WAITS FOR", value: ({ status, soaks_until }) => waveWaits(status, soaks_until, context.now()) },
  ]);
}

function waveWaits(status: string, soaks_until: string | null, now: Date): string {
  if (status === "gate") return "somebody who promotes it";
  return status === "soaking" ? `its soak time, over ${relative(soaks_until, now)}` : "";
}

function showDeployment(context: Context, deployment: Body<"getDeployment">["data"]): void {
  const { counts, created_by } = deployment;
  const named = Object.entries(counts).flatMap(([name, count]) => (count === 0 || name === "total" ? [] : [`${count} ${name}`]));
  const time = (at: string | null): string | undefined => (at === null ? undefined : `${relative(at, context.now())} (${at})`);
  context.out.details([
    ["Id", deployment.id],
    ["Release", `${deployment.release.tag} (${deployment.release.id}), app ${deployment.release.app}`],
    ["Target", `${deployment.target_kind} ${deployment.robot_id ?? deployment.fleet_id}`],
    ["Status", context.out.status(deployment.status)],
    ["Reason", deployment.reason ?? undefined],
    ["Robots", `${counts.total}${named.length === 0 ? "" : `: ${named.join(", ")}`}`],
    ["Paused", time(deployment.paused_at)],
    ["Scheduled", time(deployment.scheduled_at)],
    ["Created", `${time(deployment.created_at)} by ${created_by.name ?? created_by.type}`],
    ["Cancelled", time(deployment.cancel_requested_at)],
    ["Started", time(deployment.started_at)],
    ["Finished", time(deployment.finished_at)],
    ["Expires", deployment.finished_at === null ? time(deployment.expires_at) : undefined],
  ]);
}
