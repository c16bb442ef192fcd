import { isTerminal, TARGET_STATUSES, type TargetStatus } from "@roamfleet/protocol";
import type { Body, Client } from "@roamfleet/sdk";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { line } from "../../text.ts";

const TARGETS_SHOWN_MAX = 20;
/** Robots whose error messages are shown; each costs a request. */
const ROBOTS_HEARD_MAX = 5;
const EVENTS_OF_ROBOT_MAX = 200;

type Deployment = Body<"getDeployment">["data"];
type Target = Body<"listDeploymentTargets">["items"][number];

const FAILED: readonly TargetStatus[] = ["failed", "rolled_back"];
/** Sort order: statuses that need attention, then active, then done, then not started. */
const IN_ORDER: readonly TargetStatus[] = [
  ...FAILED,
  ...TARGET_STATUSES.filter((status) => !isTerminal(status) && status !== "pending" && status !== "queued").toReversed(),
  "cancelled",
  "applied",
  "queued",
  "pending",
];

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
    const items = await firstTargets(client, answer.data);
    if (items.length === 0) return;
    out.line();
    await out.table(items, [
      { title: "ROBOT", value: ({ robot_id }) => robot_id },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "WHY", value: why },
      { title: "CHANGED", value: ({ updated_at }) => relative(updated_at, context.now()) },
    ]);
    const more = answer.data.counts.total - items.length;
    if (more > 0) out.line(`and ${more} more. List all: rf api GET /api/deployments/${id}/targets`);
    const failed = items.filter(({ status }) => FAILED.includes(status)).slice(0, ROBOTS_HEARD_MAX);
    for (const words of await Promise.all(failed.map(({ robot_id }) => wordsOf(client, id, robot_id))))
      if (words !== undefined) out.line(words);
  });
}

const why = ({ removed, reason, waiting_for }: Target): string =>
  removed ? "removed; nothing runs" : (reason ?? (waiting_for === null ? "" : `waiting for ${waiting_for}`));

/** Returns up to the number of targets shown, queried in display order so that large fleets still show failures. */
async function firstTargets(client: Client, { id, counts }: Deployment): Promise<Target[]> {
  const list = async (query: { status?: TargetStatus }, limit: number): Promise<Target[]> =>
    (await client.listDeploymentTargets({ params: { id }, query: { ...query, limit } })).items;
  const order = ({ status }: Target): number => IN_ORDER.indexOf(status);
  if (counts.total <= TARGETS_SHOWN_MAX) return (await list({}, TARGETS_SHOWN_MAX)).toSorted((a, b) => order(a) - order(b));
  const found: Target[] = [];
  for (const status of IN_ORDER) {
    const known = counts[status as keyof typeof counts] ?? counts.active;
    if (known > 0 && found.length < TARGETS_SHOWN_MAX) found.push(...(await list({ status }, TARGETS_SHOWN_MAX - found.length)));
  }
  return found;
}

/** Returns the robot's message about its last failure. */
async function wordsOf(client: Client, id: string, robot_id: string): Promise<string | undefined> {
  const { items } = await client.listDeploymentEvents({ params: { id }, query: { robot_id, limit: EVENTS_OF_ROBOT_MAX } });
  const said = items.findLast(({ data }) => typeof data.robot_says === "string" || typeof data.detail === "string")?.data;
  return said === undefined ? undefined : line`${robot_id}: ${String(said.robot_says ?? said.detail)}`;
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
    { title: "WAITING FOR", value: ({ status, soaks_until }) => waveWaits(status, soaks_until, context.now()) },
  ]);
}

function waveWaits(status: string, soaks_until: string | null, now: Date): string {
  if (status === "gate") return "promotion";
  return status === "soaking" ? `soak time, ends ${relative(soaks_until, now)}` : "";
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
