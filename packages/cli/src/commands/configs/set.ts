import { readFile } from "node:fs/promises";
import type { Client } from "@robofleet/sdk";
import { addExamples, type Define } from "../../command.ts";
import { type ConfigEntry, readScope, type ScopeOptions, scopeOptions, valueText } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { usage } from "../../failure.ts";
import { askSecret, readStdin } from "../../secret.ts";
import { line } from "../../text.ts";
import { parseValue } from "../../values.ts";
import { watchConfigDeployment } from "../../watch-config.ts";

const VALUE_BYTES_MAX = 1_048_576;

interface Options extends ScopeOptions {
  secret?: boolean;
  fromFile?: string;
  /** False with --no-deploy. */
  deploy?: boolean;
  watch?: boolean;
}

export const define: Define = (command, act) => {
  command
    .description(
      "Set a config value for the whole org, or with --site, --fleet or --robot for that target only; a fleet or robot then gets it " +
        "by a config deployment. Setting alone changes no robot. The value is read as JSON, and is a string when it is none.",
    )
    .argument("<key>", "Key of the value")
    .argument("[value]", "JSON, or text; of a secret it is asked for, or read from stdin");
  scopeOptions(command)
    .option("--secret", "Encrypt the value and show it to nobody but the robots; needs the role admin")
    .option("--from-file <path>", "Read the value from a file; - is stdin")
    .option("--no-deploy", "Only set it, with --fleet or --robot too")
    .option("--watch", "Follow the deployment to its end")
    .action(act<[string, string | undefined, Options]>(run));
  addExamples(command, [
    "rf configs set speed_limit 1.5 --fleet fleet_…",
    "rf configs set greeting hello --namespace voice",
    `rf configs set zones '["a","b"]' --robot rob_… --watch`,
    "rf configs set offset -- -3",
    "rf configs set registry_password --secret --fleet fleet_… < password.txt",
  ]);
};

async function run(context: Context, key: string, text: string | undefined, options: Options): Promise<void> {
  const { scope, scope_id } = readScope(options);
  const deploys = options.deploy !== false && (scope === "fleet" || scope === "robot");
  if (options.watch === true && !deploys) throw usage("--watch follows a deployment, and there is none without --fleet or --robot");
  const value = await readValue(context, key, text, options);
  const client = await context.client();
  const at = scope === "org" ? {} : { scope, scope_id };
  const body = { key, value, namespace: options.namespace, ...at, ...(options.secret === true ? { secret: true } : {}) };
  const config = (await client.setConfig({ body, idempotency_key: context.idempotencyKey() })).data;
  const told = line`${config.namespace}/${config.key} = ${valueText(config)} (version ${config.version})`;
  if (!deploys) {
    return context.out.result({ data: config }, () => {
      context.out.line(
        scope === "org"
          ? `Set ${told}`
          : line`Set for ${scope} ${scope_id}: ${config.namespace}/${config.key} = ${valueText(config)} (version ${config.version})`,
      );
      context.out.line("No robot has it yet: a config deployment brings it, such as rf configs deploy --fleet <id>.");
    });
  }
  await deploy(context, client, config, told, options);
}

async function deploy(context: Context, client: Client, config: ConfigEntry, told: string, options: Options): Promise<void> {
  const { fleet, robot } = options;
  const target = { robot_id: robot, fleet_id: fleet, namespace: config.namespace };
  const created = await client.createConfigDeployment({ body: target, idempotency_key: context.idempotencyKey() }).then(
    ({ data }) => data,
    (error: unknown) => {
      context.out.note(line`The value was set, but not deployed: ${told}`);
      throw error;
    },
  );
  const set = line`Set for ${config.scope} ${fleet ?? robot}: ${config.namespace}/${config.key} = ${valueText(config)} (version ${config.version})`;
  if (options.watch === true && !context.structured) context.out.line(set);
  const deployment = options.watch === true ? await watchConfigDeployment(context, client, created) : created;
  await context.out.result({ data: { config, deployment } }, () => {
    if (options.watch === true) return;
    context.out.line(set);
    context.out.line(
      line`Config deployment ${deployment.id} is ${context.out.status(deployment.status)}. Follow it: rf configs events ${deployment.id}`,
    );
  });
}

async function readValue(context: Context, key: string, text: string | undefined, { secret, fromFile }: Options): Promise<unknown> {
  if (text !== undefined && fromFile !== undefined) throw usage("the value is given twice: as an argument and with --from-file");
  if (text !== undefined) {
    if (secret === true)
      context.out.note(
        "warning: other users of this machine can see arguments, and the shell keeps them; leave the value out to be asked for it",
      );
    return parseValue(text);
  }
  if (fromFile !== undefined) return parseValue(trimEnd(await readText(fromFile)));
  // Never from stdin unasked: a script whose value is missing would set an empty text.
  if (secret !== true) throw usage("say which value: as an argument, or with --from-file <path>, where - is stdin");
  const asked = trimEnd(await askSecret(`Value of ${key}`));
  if (asked === "") throw usage("the secret is empty", `An empty text is '""'.`);
  return parseValue(asked);
}

const readText = async (file: string): Promise<string> =>
  (file === "-" ? await readStdin(VALUE_BYTES_MAX) : await readFile(file)).toString();

/** What an editor or `echo` puts at the end of a text is not part of it. */
const trimEnd = (text: string): string => text.replace(/\r?\n$/, "");
