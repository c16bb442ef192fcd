import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import type { Client } from "@roamfleet/sdk";
import { defineCommand, printAnswer } from "../command.ts";
import { type ConfigEntry, findEntry, readScope, type ScopeOptions, scopeOptions, valueText, whereOf } from "../config-scope.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure, usage } from "../failure.ts";
import { askSecret, readStdin } from "../secret.ts";
import { line } from "../text.ts";
import { parseValue } from "../values.ts";
import { startedText, watchConfigDeployment } from "./config-deployments.ts";

const VALUE_BYTES_MAX = 1_048_576;

interface Options extends ScopeOptions {
  secret?: boolean;
  fromFile?: string;
  /** Whether to deploy the value; false if the user passed --no-deploy. */
  deploy?: boolean;
  watch?: boolean;
}

export const set = defineCommand<[string, string | undefined, Options]>(
  "Set a config value for the whole org or, with --site, --fleet or --robot, for that target only. With --fleet or --robot, the value is also " +
    "deployed to that target: robots get values only by deployments. Text that is not valid JSON is set as a string.",
  (command) => {
    command.argument("<key>", "Key of the value").argument("[value]", "JSON or text; a secret is prompted for or read from stdin");
    scopeOptions(command)
      .option("--secret", "Encrypt the value and reveal it to robots only; needs the role admin")
      .option("--from-file <path>", "Read the value from a file; - is stdin")
      .option("--no-deploy", "Do not deploy the value, even with --fleet or --robot")
      .option("--watch", "Follow the deployment until it ends");
  },
  async (context, key, text, options) => {
    const { scope, scope_id } = readScope(options);
    const deploys = options.deploy !== false && (scope === "fleet" || scope === "robot");
    if (options.watch === true && !deploys) throw usage("--watch needs a deployment: add --fleet or --robot");
    const value = await readValue(context, key, text, options);
    const client = await context.client();
    const at = scope === "org" ? {} : { scope, scope_id };
    const body = { key, value, namespace: options.namespace, ...at, secret: options.secret };
    const config = (await client.setConfig({ body, idempotency_key: context.idempotencyKey() })).data;
    const description = line`${config.namespace}/${config.key} = ${valueText(config)} (version ${config.version})`;
    if (!deploys) {
      const set = scope === "org" ? `Set ${description}` : `${line`Set for ${whereOf(config)}`}: ${description}`;
      return printAnswer(context, { data: config }, () => [set, "Not deployed yet. Deploy it: rf configs deploy --fleet <id>"]);
    }
    await deploy(context, client, config, description, options);
  },
  [
    "rf configs set speed_limit 1.5 --fleet fleet_…",
    "rf configs set greeting hello --namespace voice",
    `rf configs set zones '["a","b"]' --robot rob_… --watch`,
    "rf configs set offset -- -3",
    "rf configs set registry_password --secret --fleet fleet_… < password.txt",
  ],
);

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
  const set = `${line`Set for ${whereOf(config)}`}: ${description}`;
  if (options.watch === true && !context.structured) context.out.line(set);
  const deployment = options.watch === true ? await watchConfigDeployment(context, client, created) : created;
  await printAnswer(context, { data: { config, deployment } }, () =>
    options.watch === true ? [] : [set, startedText(context, deployment)],
  );
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
  // A missing value is an error. If it were read from stdin, a script that omits the value would set an empty string.
  if (secret !== true) throw usage("a value is required: as an argument, or with --from-file <path> (- is stdin)");
  const asked = trimEnd(await askSecret(`Value of ${key}`));
  if (asked === "") throw usage("the secret is empty", `For an empty string write '""'.`);
  return parseValue(asked);
}

const readText = async (file: string): Promise<string> =>
  (file === "-" ? await readStdin(VALUE_BYTES_MAX) : await readFile(file)).toString();

/** Strips the final newline that an editor or `echo` adds. */
const trimEnd = (text: string): string => text.replace(/\r?\n$/, "");

export const edit = defineCommand<[string, ScopeOptions]>(
  "Edit a value as JSON in $VISUAL or $EDITOR. Robots get the new value with the next config deployment.",
  (command) => {
    command.argument("<key>", "Key, or id of the entry");
    scopeOptions(command);
  },
  async (context, key, options) => {
    const { editor } = context.environment;
    if (editor === undefined) throw usage("no editor is configured: set VISUAL or EDITOR, or use rf configs set");
    const client = await context.client();
    const entry = await findEntry(client, key, options);
    if (entry.secret) throw usage("secrets are never shown and cannot be edited; use rf configs set --secret");
    const draft = await openDraft(entry);
    try {
      await openEditor(editor, draft.file);
    } catch (error) {
      await draft.remove();
      throw error;
    }
    try {
      await setDraft(context, client, entry, draft);
    } catch (error) {
      throw withHint(context.failure(error), `Your changes are saved in ${draft.file}`);
    }
    await draft.remove();
  },
  ["rf configs edit zones --fleet fleet_…"],
);

async function setDraft(context: Context, client: Client, entry: ConfigEntry, draft: Draft): Promise<void> {
  const { out } = context;
  const value = await draft.read();
  if (JSON.stringify(value) === JSON.stringify(entry.value)) {
    return out.result({ data: entry }, () => out.note("No changes."));
  }
  const { namespace, scope, scope_id } = entry;
  const now = (await client.getConfig({ params: { id: entry.id } })).data;
  if (now.version !== entry.version)
    throw new Failure(EXIT.conflict, `version ${now.version} was set in the meantime; your change was not saved`, {
      hints: ["Run the command again to edit the new version."],
    });
  const at = scope === "org" ? {} : { scope, scope_id: scope_id ?? undefined };
  const answer = await client.setConfig({ body: { key: entry.key, value, namespace, ...at }, idempotency_key: context.idempotencyKey() });
  await out.result(answer, () =>
    out.line(line`Set for ${whereOf(answer.data)}: ${namespace}/${entry.key} = ${valueText(answer.data)} (version ${answer.data.version})`),
  );
}

/** A value in a temporary file. */
interface Draft {
  file: string;
  /** Returns the current content of the file. Throws a Failure if it is not JSON. */
  read(): Promise<unknown>;
  remove(): Promise<void>;
}

async function openDraft(entry: ConfigEntry): Promise<Draft> {
  const directory = await mkdtemp(path.join(tmpdir(), "rf-"));
  const file = path.join(directory, "value.json");
  await writeFile(file, `${JSON.stringify(entry.value, null, 2)}\n`, { mode: 0o600 });
  return {
    file,
    read: async () => {
      const text = await readFile(file, "utf8");
      try {
        return JSON.parse(text) as unknown;
      } catch (error) {
        throw usage(`the saved text is not valid JSON; nothing was set: ${error instanceof Error ? error.message : ""}`);
      }
    },
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

async function openEditor(editor: string, file: string): Promise<void> {
  // Runs the editor in a shell, as git does, because EDITOR may contain arguments. Its output goes to stderr: stdout is for the result.
  const child = spawn("/bin/sh", ["-c", `${editor} "$1"`, "sh", file], { stdio: ["inherit", process.stderr, "inherit"] });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Failure(EXIT.error, `the editor exited with ${code ?? "a signal"}; nothing was set`);
}

const withHint = ({ exit_code, message, hints, document, cause }: Failure, hint: string): Failure =>
  new Failure(exit_code, message, { hints: [...hints, hint], document, cause });
