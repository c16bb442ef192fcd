import { addExamples, type Define } from "../../command.ts";
import { namespaceOption } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { usage } from "../../failure.ts";
import { line } from "../../text.ts";
import { watchConfigDeployment } from "../../watch-config.ts";

interface Options {
  robot?: string;
  fleet?: string;
  namespace?: string;
  watch?: boolean;
  idempotencyKey?: string;
}

export const define: Define = (command, act) => {
  command.description(
    "Deploy the effective values to a robot or to all robots of a fleet. Exactly one of --robot and --fleet is required.",
  );
  namespaceOption(command, "Only this namespace (default: all)")
    .option("--robot <id>", "Deploy to this robot")
    .option("--fleet <id>", "Deploy to this fleet")
    .option("--watch", "Follow the deployment to its end")
    .option("--idempotency-key <uuid>", "Key that prevents a repeated call from taking effect twice (default: a fresh UUIDv4)")
    .action(act<[Options]>(run));
  addExamples(command, ["rf configs deploy --fleet fleet_… --watch", "rf configs deploy --robot rob_… --namespace nav"]);
};

async function run(context: Context, { robot, fleet, namespace, watch, idempotencyKey }: Options): Promise<void> {
  const { out } = context;
  if ((robot === undefined) === (fleet === undefined)) {
    throw usage(
      robot === undefined ? "a target is required: --robot <id> or --fleet <id>" : "--robot and --fleet cannot be used together",
      "`rf robots list` and `rf fleets list` show the ids.",
    );
  }
  const client = await context.client();
  const body = { robot_id: robot, fleet_id: fleet, namespace };
  const created = (await client.createConfigDeployment({ body, idempotency_key: idempotencyKey ?? context.idempotencyKey() })).data;
  const data = watch === true ? await watchConfigDeployment(context, client, created) : created;
  await out.result({ data }, () => {
    if (watch === true) return;
    out.line(line`Config deployment ${data.id} is ${out.status(data.status)}. Follow it: rf configs events ${data.id}`);
  });
}
