import type { DeploymentPlan } from "@roamfleet/protocol/routes";
import { addExamples, type Define } from "../command.ts";
import type { Context } from "../context.ts";
import { usage } from "../failure.ts";
import { line } from "../text.ts";
import { relative } from "../duration.ts";
import { type RolloutFlags, readRollout, rolloutOptions } from "../rollout-options.ts";
import { showPlan } from "../show-plan.ts";
import { watchDeployment } from "../watch.ts";

interface Options extends RolloutFlags {
  robot?: string;
  fleet?: string;
  watch?: boolean;
  scheduledAt?: string;
  idempotencyKey?: string;
  dryRun?: true;
}

export const define: Define = (command, act) => {
  rolloutOptions(command)
    .description("Deploy a release to a robot or to all robots of a fleet. Exactly one of --robot and --fleet is required.")
    .argument("<release>", "Tag or id of the release")
    .option("--robot <id>", "Deploy to this robot")
    .option("--fleet <id>", "Deploy to this fleet")
    .option("--watch", "Follow the deployment to its end")
    .option("--scheduled-at <rfc3339>", "Start the deployment at this time, such as 2030-01-31T22:00:00Z")
    .option("--dry-run", "Print the rollout plan without deploying")
    .option("--idempotency-key <uuid>", "Key that prevents a repeated call from taking effect twice (default: a fresh UUIDv4)")
    .action(act<[string, Options]>(run));
  addExamples(command, [
    "rf deploy 1.4.0 --robot rob_… --watch",
    "rf deploy 1.4.0 --fleet fleet_… --wave 5% --wave 50% --soak 10m --fail-threshold 10% --on-failure rollback --watch",
    "rf deploy 1.4.0 --fleet fleet_… --policy careful.yaml --dry-run",
    "rf deploy 1.4.0 --fleet fleet_… --scheduled-at 2030-01-31T22:00:00+01:00",
  ]);
};

async function run(context: Context, release: string, options: Options): Promise<void> {
  if ((options.robot === undefined) === (options.fleet === undefined)) {
    throw usage(
      options.robot === undefined ? "a target is required: --robot <id> or --fleet <id>" : "--robot and --fleet cannot be used together",
      "`rf robots list` and `rf fleets list` show the ids.",
    );
  }
  if (options.dryRun && options.watch) throw usage("--dry-run and --watch cannot be used together");
  const rollout = await readRollout(options, context.now());
  const client = await context.client();
  const request = {
    body: {
      release,
      robot_id: options.robot,
      fleet_id: options.fleet,
      scheduled_at: options.scheduledAt,
      rollout,
      dry_run: options.dryRun,
    },
    idempotency_key: options.idempotencyKey ?? context.idempotencyKey(),
  };
  // The response of a dry run has a different type than the route's.
  if (options.dryRun) return showPlan(context, (await client.createDeployment(request)) as unknown as { data: DeploymentPlan });
  const { data } = await client.createDeployment(request);
  if (options.watch) return watchDeployment(context, client, data);
  await context.out.result({ data }, () => {
    const target = options.robot === undefined ? line`fleet ${options.fleet}` : line`robot ${options.robot}`;
    context.out.line(line`Deployment ${data.id}: ${data.release.tag} to ${target}, ${context.out.status(data.status)}`);
    if (data.scheduled_at !== null && data.status === "scheduled") {
      context.out.line(line`It starts ${relative(data.scheduled_at, context.now())}, at ${data.scheduled_at}.`);
    }
    context.out.line(line`Follow it: rf deployments watch ${data.id}`);
  });
}
