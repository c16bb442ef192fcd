import type { DeploymentPlan } from "@roamfleet/protocol/routes";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { bytes } from "../duration.ts";
import { printPlan } from "../plan.ts";
import { rolloutOptions } from "../rollout-options.ts";
import { scheduleText, startFields, type StartOptions, startOptions } from "../start-options.ts";
import { targetFields, type TargetOptions, targetOptions, targetText } from "../target-options.ts";
import { line } from "../text.ts";
import { watchDeployment } from "../watch.ts";

type Options = StartOptions & TargetOptions;

export const deploy = defineCommand<[string, Options]>(
  "Deploy a release to a robot, to a fleet, or to all robots that match --site, --label and --fleet. The robots are chosen when the deployment starts.",
  (command) => startOptions(targetOptions(rolloutOptions(command).argument("<release>", "Tag or id of the release"))),
  async (context, release, options) => {
    const body = { release, ...targetFields(options), ...(await startFields(options, context.now())) };
    const client = await context.client();
    const request = { body, idempotency_key: options.idempotencyKey ?? context.idempotencyKey() };
    // A dry run returns a plan, although the route's type is a deployment.
    if (options.dryRun) return showPlan(context, (await client.createDeployment(request)) as unknown as { data: DeploymentPlan });
    const { data } = await client.createDeployment(request);
    if (options.watch) return watchDeployment(context, client, data);
    await context.out.result({ data }, () => {
      context.out.line(line`Deployment ${data.id}: ${data.release.tag} to ${targetText(data)}, ${context.out.status(data.status)}`);
      for (const text of scheduleText(data, context.now())) context.out.line(text);
      context.out.line(line`Follow it: rf deployments watch ${data.id}`);
    });
  },
  [
    "rf deploy 1.4.0 --robot rob_… --watch",
    "rf deploy 1.4.0 --fleet fleet_… --wave 5% --wave 50% --soak 10m --fail-threshold 10% --on-failure rollback --watch",
    "rf deploy 1.4.0 --site site_… --label line=3 --wave 10% --soak 10m",
    "rf deploy 1.4.0 --fleet fleet_… --policy careful.yaml --dry-run",
    "rf deploy 1.4.0 --fleet fleet_… --scheduled-at 2030-01-31T22:00:00+01:00",
  ],
);

function showPlan(context: Context, answer: { data: DeploymentPlan }): Promise<void> {
  const { release, artifact_stored, total, offline, incompatible, already_installed, bytes_to_send, window, expires_at } = answer.data;
  return printPlan(context, answer, {
    details: [
      ["Release", `${release.tag} (${release.id})${artifact_stored ? "" : ", whose artifact is not uploaded yet"}`],
      ["Target", targetText(answer.data)],
      ["Robots", `${total}: ${offline} offline, ${incompatible} incompatible, ${already_installed} already installed`],
      ["To download", bytes(bytes_to_send)],
      ["Window", window === null ? undefined : `${window.opens_at} to ${window.closes_at}`],
      ["Expires", expires_at],
    ],
    wave_columns: [
      { title: "INCOMPATIBLE", value: (wave) => wave.incompatible },
      { title: "INSTALLED", value: (wave) => wave.already_installed },
      { title: "TO DOWNLOAD", value: (wave) => bytes(wave.bytes_to_send) },
    ],
    robot_columns: [
      { title: "STATE", value: stateOf },
      { title: "TO DOWNLOAD", value: (robot) => bytes(robot.bytes_to_send) },
    ],
    note: "Dry run: nothing was deployed.",
  });
}

function stateOf({ online, incompatible, already_installed }: DeploymentPlan["robots"][number]): string {
  if (incompatible) return "incompatible";
  if (already_installed) return "installed";
  return online ? "ready" : "offline";
}
