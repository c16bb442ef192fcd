import type { DeploymentPlan } from "@roamfleet/protocol/routes";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { bytes } from "../duration.ts";
import { rolloutOptions } from "../rollout-options.ts";
import { scheduleText, startFields, type StartOptions, startOptions } from "../start-options.ts";
import { targetFields, type TargetOptions, targetOptions, targetText } from "../target-options.ts";
import { line } from "../text.ts";
import { watchDeployment } from "../watch.ts";
import { waveText } from "../waves.ts";

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

/** Maximum robots listed individually; --json lists all. */
const ROBOTS_SHOWN_MAX = 20;

/** Prints the rollout plan of a deployment. */
export async function showPlan({ out }: Context, answer: { data: DeploymentPlan }): Promise<void> {
  const { data } = answer;
  await out.result(answer, async () => {
    out.details([
      ["Release", `${data.release.tag} (${data.release.id})${data.artifact_stored ? "" : ", whose artifact is not uploaded yet"}`],
      ["Target", targetText(data)],
      ["Robots", `${data.total}: ${data.offline} offline, ${data.incompatible} incompatible, ${data.already_installed} already installed`],
      ["To download", bytes(data.bytes_to_send)],
      ["Window", data.window === null ? undefined : `${data.window.opens_at} to ${data.window.closes_at}`],
      ["Expires", data.expires_at],
    ]);
    if (data.rollout.waves !== null) {
      out.line();
      await out.table(data.waves, [
        { title: "WAVE", value: ({ wave }) => wave + 1 },
        { title: "SELECTION", value: ({ wave }) => waveText(data.rollout.waves?.[wave]) },
        { title: "ROBOTS", value: ({ total }) => total },
        { title: "OFFLINE", value: ({ offline }) => offline },
        { title: "INCOMPATIBLE", value: ({ incompatible }) => incompatible },
        { title: "INSTALLED", value: ({ already_installed }) => already_installed },
        { title: "TO DOWNLOAD", value: ({ bytes_to_send }) => bytes(bytes_to_send) },
      ]);
    }
    if (data.robots.length > 0) {
      out.line();
      await out.table(data.robots.slice(0, ROBOTS_SHOWN_MAX), [
        { title: "ROBOT", value: ({ name }) => name },
        { title: "WAVE", value: ({ wave }) => wave + 1 },
        { title: "STATE", value: (robot) => stateOf(robot) },
        { title: "TO DOWNLOAD", value: ({ bytes_to_send }) => bytes(bytes_to_send) },
        { title: "ID", value: ({ robot_id }) => robot_id },
      ]);
    }
    if (data.total > ROBOTS_SHOWN_MAX) out.line(`and ${data.total - ROBOTS_SHOWN_MAX} more: --json lists all`);
    out.note("Dry run: nothing was deployed.");
  });
}

function stateOf({ online, incompatible, already_installed }: DeploymentPlan["robots"][number]): string {
  if (incompatible) return "incompatible";
  if (already_installed) return "installed";
  return online ? "ready" : "offline";
}
