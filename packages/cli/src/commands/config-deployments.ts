import { DEPLOYMENT_STATUSES, type DeploymentStatus, isTerminal } from "@roamfleet/protocol";
import type { ConfigDeploymentPlan } from "@roamfleet/protocol/routes";
import type { Body, Client } from "@roamfleet/sdk";
import { Option } from "commander";
import { changeState } from "../change-state.ts";
import { defineCommand, printAnswer, requestCommand } from "../command.ts";
import { namespaceOption } from "../config-scope.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure } from "../failure.ts";
import { limitOption, type LimitOption, printList } from "../lists.ts";
import { printPlan } from "../plan.ts";
import { rolloutOptions } from "../rollout-options.ts";
import { scheduleText, startFields, type StartOptions, startOptions } from "../start-options.ts";
import { targetCell, targetFields, type TargetOptions, targetOptions, targetText } from "../target-options.ts";
import { line } from "../text.ts";
import { explainStillness, poll, STILL_MS, TARGETS_EXPLAINED_MAX, WAITS } from "../watch.ts";
import { deploymentStatus, explainWaves, showWaves } from "../waves.ts";

type DeployOptions = StartOptions & TargetOptions & { namespace?: string };

export const deploy = defineCommand<[DeployOptions]>(
  "Deploy the effective values to a robot, to a fleet, or to all robots that match --site, --label and --fleet. With waves, all robots get the values at the start of the deployment.",
  (command) => startOptions(targetOptions(rolloutOptions(namespaceOption(command, "Only this namespace (default: all)"), "config"))),
  async (context, options) => {
    const { namespace, watch, dryRun } = options;
    const body = { ...targetFields(options), namespace, ...(await startFields(options, context.now())) };
    const client = await context.client();
    const request = { body, idempotency_key: options.idempotencyKey ?? context.idempotencyKey() };
    // A dry run returns a plan, although the route's type is a config deployment.
    if (dryRun) return showPlan(context, (await client.createConfigDeployment(request)) as unknown as { data: ConfigDeploymentPlan });
    const created = (await client.createConfigDeployment(request)).data;
    const data = watch === true ? await watchConfigDeployment(context, client, created) : created;
    await printAnswer(context, { data }, () => (watch === true ? [] : [startedText(context, data), ...scheduleText(data, context.now())]));
  },
  [
    "rf configs deploy --fleet fleet_… --watch",
    "rf configs deploy --robot rob_… --namespace nav",
    "rf configs deploy --site site_… --label line=3 --wave 10% --soak 10m --gate-incidents warning",
    "rf configs deploy --fleet fleet_… --wave 5% --on-failure pause --dry-run",
  ],
);

export const startedText = ({ out }: Context, { id, status }: ConfigDeployment): string =>
  line`Config deployment ${id} is ${out.status(status)}. Follow it: rf configs events ${id}`;

const showPlan = (context: Context, answer: { data: ConfigDeploymentPlan }): Promise<void> =>
  printPlan(context, answer, {
    details: [
      ["Namespace", answer.data.namespace ?? "all"],
      ["Target", targetText(answer.data)],
      ["Robots", `${answer.data.total}: ${answer.data.offline} offline`],
      ["Expires", answer.data.expires_at],
    ],
    wave_columns: [],
    robot_columns: [{ title: "STATE", value: ({ online }) => (online ? "ready" : "offline") }],
    note: "Dry run: nothing was deployed. To see the changes of a robot: rf configs diff --robot <id>",
  });

type DeploymentsOptions = LimitOption & { status?: DeploymentStatus; robot?: string; fleet?: string; namespace?: string };

export const deployments = defineCommand<[DeploymentsOptions]>(
  undefined,
  (command) =>
    limitOption(namespaceOption(command, "Only deployments of this namespace"))
      .addOption(new Option("--status <status>", "Only deployments in this status").choices(DEPLOYMENT_STATUSES))
      .option("--robot <id>", "Only deployments to this robot, and to selections that include it")
      .option("--fleet <id>", "Only deployments to this fleet"),
  (context, { limit, namespace, status, robot, fleet }) =>
    printList(context, "listConfigDeployments", {
      limit,
      query: { namespace, status, robot_id: robot, fleet_id: fleet },
      no_match: "No matching config deployments.",
      empty: "No config deployments yet. Set and deploy a value: rf configs set <key> <value> --fleet <id>",
      columns: [
        { title: "ID", value: ({ id }) => id },
        { title: "NAMESPACE", value: (deployment) => deployment.namespace ?? "all" },
        { title: "TARGET", value: targetCell },
        { title: "STATUS", value: (deployment) => deploymentStatus(context.out, deployment) },
        { title: "APPLIED", value: ({ counts }) => `${counts.applied}/${counts.total}` },
        { title: "REASON", value: ({ reason }) => reason ?? "" },
        { title: "CREATED", value: ({ created_at }) => relative(created_at, context.now()) },
        { title: "FAILED", value: ({ counts }) => counts.failed, wide: true },
        { title: "BY", value: ({ created_by }) => created_by.name ?? created_by.type, wide: true },
      ],
    }),
);

export const events = requestCommand(
  undefined,
  (command) => command.argument("<id>", "ID of the config deployment"),
  (client, _, id: string) => client.listConfigDeploymentEvents({ params: { id } }),
  ({ items }, { out }) =>
    out.table(items, [
      { title: "TIME", value: ({ at }) => at },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "REASON", value: ({ reason }) => reason ?? "" },
      { title: "MESSAGE", value: ({ message }) => message },
    ]),
);

export const waves = requestCommand(
  "Show the waves of a config deployment, and what they are waiting for.",
  (command) => command.argument("<id>", "ID of the config deployment"),
  (client, _, id: string) => client.listConfigDeploymentWaves({ params: { id } }),
  ({ items }, context) => showWaves(context, items),
);

export const pause = changeState("pauseConfigDeployment", "config deployment", {
  description: "Pause a config deployment: in-progress robots finish; no new ones start.",
  done: "is paused. Resume it",
  next: "configs resume",
});

export const resume = changeState("resumeConfigDeployment", "config deployment", {
  description: "Resume a paused config deployment. If it exceeded its failure threshold, it stops again at the next failure.",
  done: "is resumed. Follow it",
  next: "configs events",
});

export const promote = changeState("promoteConfigDeployment", "config deployment", {
  description: "Start the next wave of a config deployment now, skipping the remaining soak time and a manual gate.",
  done: "is promoted to its next wave. Follow it",
  next: "configs events",
});

export const cancel = requestCommand(
  "Cancel a config deployment: robots that have not applied it keep their current values.",
  (command) => command.argument("<id>", "ID of the config deployment"),
  (client, context, id: string) => client.cancelConfigDeployment({ params: { id }, idempotency_key: context.idempotencyKey() }),
  ({ data }, { out }) => line`Config deployment ${data.id} is ${out.status(data.status)}.`,
);

const TARGETS_SHOWN_MAX = 10;
const CONFIG_WAITS = { ...WAITS, previous_deployment: "are still applying an older config" };

export type ConfigDeployment = Body<"getConfigDeployment">["data"];

/**
 * Polls a config deployment and prints changes until it ends. Returns the deployment if its final status is `applied`, otherwise throws a
 * Failure. Ctrl-C also throws a Failure; the deployment continues.
 */
export async function watchConfigDeployment(context: Context, client: Client, start: ConfigDeployment): Promise<ConfigDeployment> {
  const signal = context.interruptible();
  const { id } = start;
  let [deployment, shown, moved_at_ms] = [start, "", context.clock.monotonic()];
  const show = (text: string): void => {
    if (!context.structured && text !== shown) context.out.line(text);
    shown = text;
  };
  const read = async (): Promise<true | undefined> => {
    deployment = (await client.getConfigDeployment({ params: { id }, signal })).data;
    const text = progressText(context, deployment);
    const has_moved = text !== shown;
    show(text);
    if (isTerminal(deployment.status)) return true;
    const still = !has_moved && context.clock.monotonic() - moved_at_ms >= STILL_MS;
    if (still && !context.structured)
      for (const reason of await explain(client, deployment, context.now(), signal)) context.out.note(reason);
    if (still || has_moved) moved_at_ms = context.clock.monotonic();
    return undefined;
  };
  try {
    await poll(context, signal, { read, on_retry: show });
  } catch (error) {
    if (!signal.aborted) throw error;
    const message = `stopped watching; the deployment continues. Show its events: rf configs events ${id}`;
    throw new Failure(EXIT.interrupted, message, { bare: true, document: { data: deployment } });
  }
  if (deployment.status === "applied") return deployment;
  const { status, reason } = deployment;
  throw new Failure(EXIT.not_applied, `config deployment ${id} ended ${status}${reason === null ? "" : `: ${reason}`}`, {
    hints: await reasonsOf(client, id),
    document: { data: deployment },
  });
}

/** Returns why nothing has changed for a minute. */
async function explain(client: Client, deployment: ConfigDeployment, now: Date, signal: AbortSignal): Promise<string[]> {
  const params = { id: deployment.id };
  const { items } = await client.listConfigDeploymentTargets({ params, query: { limit: TARGETS_EXPLAINED_MAX }, signal });
  const list = () => client.listConfigDeploymentWaves({ params, signal });
  return [...explainStillness(deployment, items, now, CONFIG_WAITS), ...(await explainWaves(deployment, "configs", now, list))];
}

function progressText({ out }: Context, { status, counts, wave, wave_count }: ConfigDeployment): string {
  const parts = (["pending", "queued", "active", "failed", "cancelled"] as const).flatMap((name) =>
    counts[name] === 0 ? [] : [`${counts[name]} ${name}`],
  );
  const of_waves = wave_count > 1 ? `, wave ${wave + 1} of ${wave_count}` : "";
  return line`${out.status(status)}${of_waves}: ${[`${counts.applied} of ${counts.total} applied`, ...parts].join(", ")}`;
}

/** Returns the event messages of targets that were not applied. They contain details that the reason code lacks. */
async function reasonsOf(client: Client, id: string): Promise<string[]> {
  const { items } = await client.listConfigDeploymentEvents({ params: { id }, query: { include: "targets", limit: 1_000 } });
  const ends = items.filter(({ target_status }) => target_status !== null && isTerminal(target_status) && target_status !== "applied");
  const lines = ends.slice(0, TARGETS_SHOWN_MAX).map(({ robot_id, message }) => line`${robot_id}: ${message}`);
  return ends.length > TARGETS_SHOWN_MAX ? [...lines, `and ${ends.length - TARGETS_SHOWN_MAX} more`] : lines;
}
