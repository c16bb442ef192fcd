import { addExamples, type Define } from "../command.ts";
import type { Context } from "../context.ts";
import { usage } from "../failure.ts";
import { line } from "../text.ts";
import { relative } from "../duration.ts";
import { watchDeployment } from "../watch.ts";

interface Options {
  robot?: string;
  fleet?: string;
  watch?: boolean;
  scheduledAt?: string;
  idempotencyKey?: string;
}

export const define: Define = (command, act) => {
  command
    .description("Deploy a release to a robot or to all robots of a fleet. Exactly one of --robot and --fleet is needed.")
    .argument("<release>", "Tag or id of the release")
    .option("--robot <id>", "Deploy to this robot")
    .option("--fleet <id>", "Deploy to this fleet")
    .option("--watch", "Follow the deployment to its end")
    .option("--scheduled-at <rfc3339>", "Hold the deployment until then, such as 2030-01-31T22:00:00Z")
    .option("--idempotency-key <uuid>", "Key under which the same call happens once (default: a fresh UUIDv4)")
    .action(act<[string, Options]>(run));
  addExamples(command, [
    "rf deploy 1.4.0 --robot rob_… --watch",
    "rf deploy 1.4.0 --fleet fleet_… --scheduled-at 2030-01-31T22:00:00+01:00",
  ]);
};

async function run(context: Context, release: string, options: Options): Promise<void> {
  if ((options.robot === undefined) === (options.fleet === undefined)) {
    throw usage(
      options.robot === undefined ? "say where to: --robot <id> or --fleet <id>" : "--robot and --fleet exclude each other",
      "`rf robots list` and `rf fleets list` show the ids.",
    );
  }
  const client = await context.client();
  const { data } = await client.createDeployment({
    body: { release, robot_id: options.robot, fleet_id: options.fleet, scheduled_at: options.scheduledAt },
    idempotency_key: options.idempotencyKey ?? context.idempotencyKey(),
  });
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
