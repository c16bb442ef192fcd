import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { parseValue } from "../../values.ts";
import { usage } from "../../failure.ts";
import { line } from "../../text.ts";

interface Options {
  namespace?: string;
  fleet?: string;
  robot?: string;
}

export const define: Define = (command, act) => {
  command
    .description(
      "Set a config value for the whole org, or with --fleet or --robot for that target only, and then deploy it there. " +
        "Setting alone changes no robot. The value is read as JSON, and is a string when it is none.",
    )
    .argument("<key>", "Key of the value")
    .argument("<value>", "JSON, or text")
    .option("--namespace <name>", "Namespace of the key (default: default)")
    .option("--fleet <id>", "Set it for this fleet and deploy it")
    .option("--robot <id>", "Set it for this robot and deploy it")
    .action(act<[string, string, Options]>(run));
  addExamples(command, [
    "rf configs set speed_limit 1.5 --fleet fleet_…",
    "rf configs set greeting hello --namespace voice",
    `rf configs set zones '["a","b"]' --robot rob_…`,
    "rf configs set offset -- -3",
  ]);
};

async function run(context: Context, key: string, text: string, options: Options): Promise<void> {
  const { fleet, robot } = options;
  if (fleet !== undefined && robot !== undefined) throw usage("--robot and --fleet exclude each other");
  const value = parseValue(text);
  const client = await context.client();
  const scope = fleet === undefined ? (robot === undefined ? undefined : "robot") : "fleet";
  const body = { key, value, namespace: options.namespace, scope, scope_id: fleet ?? robot } as const;
  const config = (await client.setConfig({ body, idempotency_key: context.idempotencyKey() })).data;
  const told = line`${config.namespace}/${config.key} = ${JSON.stringify(config.value)} (version ${config.version})`;
  if (scope === undefined) {
    return context.out.result({ data: config }, () => {
      context.out.line(`Set ${told}`);
      context.out.line("No robot has it yet: a config deployment brings it, such as rf configs set … --fleet <id>.");
    });
  }
  const target = { robot_id: robot, fleet_id: fleet, namespace: config.namespace };
  const deployment = await client.createConfigDeployment({ body: target, idempotency_key: context.idempotencyKey() }).then(
    ({ data }) => data,
    (error: unknown) => {
      context.out.note(line`The value was set, but not deployed: ${told}`);
      throw error;
    },
  );
  await context.out.result({ data: { config, deployment } }, () => {
    context.out.line(
      line`Set for ${scope} ${fleet ?? robot}: ${config.namespace}/${config.key} = ${JSON.stringify(config.value)} (version ${config.version})`,
    );
    context.out.line(
      line`Config deployment ${deployment.id} is ${context.out.status(deployment.status)}. Follow it: rf configs events ${deployment.id}`,
    );
  });
}
