import { readFile } from "node:fs/promises";
import type { Client } from "@roamfleet/sdk";
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
      "Set a config value for the whole org, or with --site, --fleet or --robot for that target only; with --fleet or --robot the value is then " +
        "deployed there. Without a deployment no robot changes. The value is parsed as JSON, and is a string if that fails.",
    )
    .argument("<key>", "Key of the value")
    .argument("[value]", "JSON or text; a secret is prompted for or read from stdin");
  scopeOptions(command)
    .option("--secret", "Encrypt the value and reveal it to robots only; needs the role admin")
    .option("--from-file <path>", "Read the value from a file; - is stdin")
    .option("--no-deploy", "Do not deploy the value, also with --fleet or --robot")
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
  if (options.watch === true && !deploys) throw usage("--watch needs a deployment: add --fleet or --robot");
  const value = await readValue(context, key, text, options);
  const client = await context.client();
  const at = scope === "org" ? {} : { scope, scope_id };
  const body = { key, value, namespace: options.namespace, ...at, ...(options.secret === true ? { secret: true } : {}) };
  const config = (await client.setConfig({ body, idempotency_key: context.idempotencyKey() })).data;
  const description = line`${config.namespace}/${config.key} = ${valueText(config)} (version ${config.version})`;
  if (!deploys) {
    return context.out.result({ data: config }, () => {
      context.out.line(
        scope === "org"
          ? `Set ${description}`
          : line`Set for ${scope} ${scope_id}: ${config.namespace}/${config.key} = ${valueText(config)} (version ${config.version})`,
      );
      context.out.line("Not deployed yet. Deploy it: rf configs deploy --fleet <id>");
    });
  }
  await deploy(context, client, config, description, options);
}

async function deploy(context: Context, client: Client, config: ConfigEntry, description: string, options: Options): Promise<void> {
  const { fleet, robot } = options;
  const target = { robot_id: robot, fleet_id: fleet, namespace: config.namespace };
  const created = await client.createConfigDeployment({ body: target, idempotency_key: context.idempotencyKey() }).then(
    ({ data }) => data,
    (error: unknown) => {
      context.out.note(line`The value was set, but not deployed: ${description}`);
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
  if (text !== undefined && fromFile !== undefined) throw usage("a value argument and --from-file cannot be used together");
  if (text !== undefined) {
    if (secret === true)
      context.out.note(
        "warning: arguments are visible to other users of this machine and stay in the shell's history; omit the value to be prompted for it",
      );
    return parseValue(text);
  }
  if (fromFile !== undefined) return parseValue(trimEnd(await readText(fromFile)));
  // Never read stdin implicitly: a script with a missing value would set an empty string.
  if (secret !== true) throw usage("a value is required: as an argument, or with --from-file <path> (- is stdin)");
  const asked = trimEnd(await askSecret(`Value of ${key}`));
  if (asked === "") throw usage("the secret is empty", `For an empty string write '""'.`);
  return parseValue(asked);
}

const readText = async (file: string): Promise<string> =>
  (file === "-" ? await readStdin(VALUE_BYTES_MAX) : await readFile(file)).toString();

/** Strips the final newline that an editor or `echo` adds. */
const trimEnd = (text: string): string => text.replace(/\r?\n$/, "");
