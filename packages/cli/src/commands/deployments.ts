import { DEPLOYMENT_STATUSES, type DeploymentStatus, isTerminal, TARGET_STATUSES, type TargetStatus } from "@roamfleet/protocol";
import type { Body, Client } from "@roamfleet/sdk";
import { Option } from "commander";
import { changeState } from "../change-state.ts";
import { defineCommand, requestCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { readTime, relative, type TimeOption } from "../duration.ts";
import { type LimitOption, limitOption, printList } from "../lists.ts";
import { targetCell, targetText } from "../target-options.ts";
import { line } from "../text.ts";
import { watchDeployment } from "../watch.ts";
import { deploymentStatus, showWaves } from "../waves.ts";

interface ListOptions extends LimitOption {
  status?: DeploymentStatus;
  robot?: string;
  fleet?: string;
  since?: TimeOption;
  following?: boolean;
}

export const list = defineCommand<[ListOptions]>(
  undefined,
  (command) =>
    limitOption(command)
      .addOption(new Option("--status <status>", "Only deployments in this status").choices(DEPLOYMENT_STATUSES))
      .option("--robot <id>", "Only deployments to this robot, and to selections that include it")
      .option("--fleet <id>", "Only deployments to this fleet")
      .option("--since <time>", "Only deployments created since this time: an age such as 10m, 2h or 3d, or an RFC 3339 time", readTime)
      .option(
        "--following",
        "Include automatic deployments to robots that follow their fleet; with --robot, automatic deployments are always listed",
      ),
  async (context, options) => {
    const query = { status: options.status, robot_id: options.robot, fleet_id: options.fleet, since: options.since?.(context.now()) };
    const cause = options.following === true || options.robot !== undefined ? undefined : ("request" as const);
    await printList(context, "listDeployments", {
      limit: options.limit,
      query: { ...query, cause },
      filter: query,
      no_match: "No matching deployments.",
      empty: "No deployments yet. Deploy a release: rf deploy <release> --fleet <id>",
      columns: [
        { title: "ID", value: ({ id }) => id },
        { title: "RELEASE", value: ({ release }) => release.tag },
        { title: "TARGET", value: targetCell },
        { title: "STATUS", value: (deployment) => deploymentStatus(context.out, deployment) },
        { title: "APPLIED", value: ({ counts }) => `${counts.applied}/${counts.total}` },
        { title: "REASON", value: ({ reason }) => reason ?? "" },
        { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()) },
        { title: "APP", value: ({ release }) => release.app, wide: true },
        { title: "FAILED", value: ({ counts }) => counts.failed, wide: true },
        { title: "ROLLED BACK", value: ({ counts }) => counts.rolled_back, wide: true },
        { title: "BY", value: ({ created_by }) => created_by.name ?? created_by.type, wide: true },
        { title: "FINISHED", value: ({ finished_at }) => (finished_at === null ? "–" : relative(finished_at, context.now())), wide: true },
      ],
    });
  },
);

export const watch = defineCommand<[string]>(
  "Follow a deployment until it is applied, failed, rolled back or cancelled. Ctrl-C stops watching; the deployment continues.",
  (command) => command.argument("<id>", "ID of the deployment"),
  async (context, id) => {
    const client = await context.client();
    const { data } = await client.getDeployment({ params: { id } });
    await watchDeployment(context, client, data);
  },
);

export const pause = changeState("pauseDeployment", "deployment", {
  description: "Pause a deployment: in-progress robots finish; no new ones start.",
  done: "is paused. Resume it",
  next: "deployments resume",
});

export const resume = changeState("resumeDeployment", "deployment", {
  description: "Resume a paused deployment. If it exceeded its failure threshold, it stops again at the next failure.",
  done: "is resumed. Follow it",
  next: "deployments watch",
});

export const promote = changeState("promoteDeployment", "deployment", {
  description: "Start the next wave now, skipping the remaining soak time and a manual gate.",
  done: "is promoted to its next wave. Follow it",
  next: "deployments watch",
});

export const cancel = requestCommand(
  "Cancel a deployment: robots that have begun to install the release finish, all others stop.",
  (command) =>
    command
      .argument("<id>", "ID of the deployment")
      .option("--rollback", "Also roll back robots that are installing the release, after they finish"),
  (client, context, id: string, options: { rollback?: true }) => {
    const body = options.rollback === true ? { mode: "rollback" as const } : {};
    return client.cancelDeployment({ params: { id }, body, idempotency_key: context.idempotencyKey() });
  },
  ({ data: { id, status, counts } }, { out }) => {
    out.line(line`Deployment ${id} is ${out.status(status)}.`);
    if (!isTerminal(status)) out.line(line`Robots that are still installing: ${counts.active}. Follow it: rf deployments watch ${id}`);
  },
);

export const rollback = defineCommand<[string, { watch?: true }]>(
  "Roll back a deployment's robots to their previous release. If the deployment is running, its status changes to rolling_back; if it has ended, a new deployment performs the rollback.",
  (command) =>
    command
      .argument("<id>", "ID of the deployment")
      .option("--watch", "Follow the rollback until it ends; it succeeds if no robot of the deployment runs the release"),
  async (context, id, options) => {
    const { out } = context;
    const client = await context.client();
    const answer = await client.rollBackDeployment({ params: { id }, idempotency_key: context.idempotencyKey() });
    const { data } = answer;
    const is_new = data.id !== id;
    if (options.watch === true) {
      if (!context.structured)
        out.line(
          is_new ? line`Deployment ${data.id} rolls back ${robotsText(data.counts.total)}.` : line`Deployment ${id} is rolling back.`,
        );
      return watchDeployment(context, client, data, is_new ? ["applied"] : ["rolled_back", "cancelled"]);
    }
    await out.result(answer, () => {
      out.line(
        is_new
          ? line`Deployment ${data.id} rolls back ${robotsText(data.counts.total)} to the release before deployment ${id}.`
          : line`Deployment ${id} is ${out.status(data.status)}.`,
      );
      if (!isTerminal(data.status)) out.line(line`Follow it: rf deployments watch ${data.id}`);
    });
  },
);

export const retry = defineCommand<[string, { watch?: true }]>(
  "Deploy again to the robots on which an earlier deployment failed or was rolled back.",
  (command) =>
    command
      .argument("<id>", "ID of the earlier deployment, which must have ended")
      .option("--watch", "Follow the new deployment until it ends"),
  async (context, id, options) => {
    const { out } = context;
    const client = await context.client();
    const answer = await client.retryDeployment({ params: { id }, body: {}, idempotency_key: context.idempotencyKey() });
    const { data } = answer;
    const text = line`Deployment ${data.id} retries ${data.release.tag} on ${robotsText(data.counts.total)}.`;
    if (options.watch === true) {
      if (!context.structured) out.line(text);
      return watchDeployment(context, client, data);
    }
    await out.result(answer, () => {
      out.line(text);
      out.line(line`Follow it: rf deployments watch ${data.id}`);
    });
  },
);

const robotsText = (count: number): string => `${count} ${count === 1 ? "robot" : "robots"}`;

const TARGETS_SHOWN_MAX = 20;
/** Maximum failed robots whose error messages are shown: each message costs a request. */
const ROBOTS_EXPLAINED_MAX = 5;
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

export const show = defineCommand<[string]>(
  undefined,
  (command) => command.argument("<id>", "ID of the deployment"),
  async (context, id) => {
    const { out } = context;
    const client = await context.client();
    const answer = await client.getDeployment({ params: { id } });
    await out.result(answer, async () => {
      showDeployment(context, answer.data);
      if (answer.data.wave_count > 1) {
        out.line();
        await showWaves(context, (await client.listDeploymentWaves({ params: { id } })).items);
      }
      const items = await firstTargets(client, answer.data);
      if (items.length === 0) return;
      out.line();
      await out.table(items, [
        { title: "ROBOT", value: ({ robot_id }) => robot_id },
        { title: "STATUS", value: ({ status }) => out.status(status) },
        { title: "REASON", value: why },
        { title: "CHANGED", value: ({ updated_at }) => relative(updated_at, context.now()) },
      ]);
      const more = answer.data.counts.total - items.length;
      if (more > 0) out.line(`and ${more} more. List all: rf api GET /api/deployments/${id}/targets`);
      const failed = items.filter(({ status }) => FAILED.includes(status)).slice(0, ROBOTS_EXPLAINED_MAX);
      for (const words of await Promise.all(failed.map(({ robot_id }) => lastMessageOf(client, id, robot_id))))
        if (words !== undefined) out.line(words);
    });
  },
);

const why = ({ removed, reason, waiting_for }: Target): string =>
  removed ? "removed; the app no longer runs" : (reason ?? (waiting_for === null ? "" : `waiting for ${waiting_for}`));

/** Returns at most TARGETS_SHOWN_MAX targets. Queries them by status in display order, so that failures in a large fleet are shown too. */
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
async function lastMessageOf(client: Client, id: string, robot_id: string): Promise<string | undefined> {
  const { items } = await client.listDeploymentEvents({ params: { id }, query: { robot_id, limit: EVENTS_OF_ROBOT_MAX } });
  const said = items.findLast(({ data }) => typeof data.robot_says === "string" || typeof data.detail === "string")?.data;
  return said === undefined ? undefined : line`${robot_id}: ${String(said.robot_says ?? said.detail)}`;
}

function showDeployment(context: Context, deployment: Body<"getDeployment">["data"]): void {
  const { counts, created_by } = deployment;
  const named = Object.entries(counts).flatMap(([name, count]) => (count === 0 || name === "total" ? [] : [`${count} ${name}`]));
  const time = (at: string | null): string | undefined => (at === null ? undefined : `${relative(at, context.now())} (${at})`);
  context.out.details([
    ["ID", deployment.id],
    ["Release", `${deployment.release.tag} (${deployment.release.id}), app ${deployment.release.app}`],
    ["Target", targetText(deployment)],
    ["Status", deploymentStatus(context.out, deployment)],
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
