import { readFile } from "node:fs/promises";
import type { Client } from "@roamfleet/sdk";
import { defineCommand, oneOf, requestCommand, wholeNumber } from "../command.ts";
import {
  findEntry,
  findEntryId,
  namespaceOption,
  readScope,
  type ScopeOptions,
  scopeOptions,
  valueText,
  whereOf,
} from "../config-scope.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure, usage } from "../failure.ts";
import { limitOption, type LimitOption, printList, readList } from "../lists.ts";
import { readStdin } from "../secret.ts";
import { line } from "../text.ts";

export const list = defineCommand<[ScopeOptions & LimitOption & { key?: string }]>(
  undefined,
  (command) =>
    limitOption(
      namespaceOption(command, "Only entries of this namespace")
        .option("--key <key>", "Only entries with this key")
        .option("--site <id>", "Only entries set for this site")
        .option("--fleet <id>", "Only entries set for this fleet")
        .option("--robot <id>", "Only entries set for this robot"),
    ),
  async (context, options) => {
    const { scope, scope_id } = readScope(options);
    // Without a scope option, entries of all scopes are listed.
    const query = { namespace: options.namespace, key: options.key, scope: scope_id === undefined ? undefined : scope, scope_id };
    await printList(context, "listConfigs", {
      limit: options.limit,
      query,
      no_match: "No matching config entries.",
      empty: "No config entries yet. Set one: rf configs set <key> <value>",
      columns: [
        { title: "NAMESPACE", value: ({ namespace }) => namespace },
        { title: "KEY", value: ({ key }) => key },
        { title: "VALUE", value: valueText },
        { title: "SCOPE", value: ({ scope, scope_id }) => scope_id ?? scope },
        { title: "VERSION", value: ({ version }) => version },
        { title: "SET", value: ({ updated_at }) => relative(updated_at, context.now()) },
        { title: "BY", value: ({ updated_by }) => updated_by ?? "–", wide: true },
        { title: "ID", value: ({ id }) => id, wide: true },
      ],
    });
  },
  ["rf configs list --key speed_limit", "rf configs list --fleet fleet_… --namespace nav"],
);

export const get = defineCommand<[string, ScopeOptions]>(
  "Show the value set at one scope: the org, a site, a fleet or a robot. To see a robot's effective values: rf configs effective.",
  (command) => {
    command.argument("<key>", "Key, or id of the entry");
    scopeOptions(command);
  },
  async (context, key, options) => {
    const { out } = context;
    const data = await findEntry(await context.client(), key, options);
    await out.result({ data }, () => {
      out.line(line`${data.namespace}/${data.key} = ${valueText(data)}`);
      out.line(line`Version ${data.version}, set for ${whereOf(data)} at ${data.updated_at} by ${data.updated_by ?? "–"} (${data.id})`);
    });
  },
  ["rf configs get speed_limit", "rf configs get speed_limit --fleet fleet_…"],
);

export const unset = requestCommand(
  "Remove the value set at one scope, so that a wider scope applies. Robots keep their values until the next config deployment. " +
    "The history is kept: rf configs rollback restores the value.",
  (command) => {
    command.argument("<key>", "Key, or id of the entry");
    scopeOptions(command);
  },
  async (client, _, key: string, options: ScopeOptions) =>
    client.deleteConfig({ params: { id: (await findEntry(client, key, options)).id } }),
  ({ data }) => [
    line`Removed ${data.namespace}/${data.key} of ${whereOf(data)} (${data.id})`,
    line`Robots keep their values until the next config deployment: rf configs deploy --namespace ${data.namespace} --fleet <id>`,
  ],
  ["rf configs unset speed_limit --robot rob_…"],
);

export const effective = defineCommand<[{ robot: string; namespace?: string }]>(
  "Show a robot's effective values, the scope that each comes from, and whether the files on the robot match the last deployment.",
  (command) => {
    namespaceOption(command, "Only this namespace").requiredOption("--robot <id>", "Robot whose values to show");
  },
  async (context, { robot, namespace }) => {
    const { out } = context;
    const { data } = await (await context.client()).getRobotConfig({ params: { id: robot } });
    const wanted = <T extends { namespace: string }>(items: T[]): T[] =>
      items.filter((item) => namespace === undefined || item.namespace === namespace);
    const shown = { ...data, effective: wanted(data.effective), namespaces: wanted(data.namespaces) };
    await out.result({ data: shown }, async () => {
      if (shown.effective.length === 0) out.note("No values apply to this robot.");
      else
        await out.table(shown.effective, [
          { title: "NAMESPACE", value: (value) => value.namespace },
          { title: "KEY", value: ({ key }) => key },
          { title: "VALUE", value: valueText },
          { title: "FROM", value: whereOf },
          { title: "VERSION", value: ({ version }) => version },
          { title: "ID", value: ({ config_id }) => config_id, wide: true },
        ]);
      for (const { namespace: of, state } of shown.namespaces) out.line(line`File ${of}: ${out.status(state)}${MEANINGS[state]}`);
    });
  },
  ["rf configs effective --robot rob_…"],
);

const MEANINGS = {
  in_sync: ", matches the last deployment",
  pending: ", a config deployment is in progress",
  drifted: ", changed or removed on the robot; the next config deployment restores it",
  unknown: ", never deployed",
} as const;

export const history = defineCommand<[string, ScopeOptions & LimitOption]>(
  "List every version of a value, newest first, even if the value was removed.",
  (command) => {
    command.argument("<key>", "Key, or id of the entry");
    limitOption(scopeOptions(command));
  },
  async (context, key, options) => {
    const client = await context.client();
    const id = await findEntryId(client, key, options);
    await printList(context, "listConfigHistory", {
      client,
      limit: options.limit,
      params: { id },
      columns: [
        { title: "VERSION", value: ({ version }) => version },
        { title: "TIME", value: ({ at }) => at },
        { title: "CHANGE", value: ({ change, rollback_of }) => (rollback_of === null ? change : `${change} to ${rollback_of}`) },
        { title: "VALUE", value: (version) => (version.change === "removed" ? "" : valueText(version)) },
        { title: "BY", value: ({ actor }) => actor.name ?? actor.id ?? actor.type },
      ],
    });
  },
  ["rf configs history speed_limit --fleet fleet_…"],
);

export const rollback = requestCommand(
  "Restore the value of an earlier version as a new version. Robots get it with the next config deployment.",
  (command) => {
    command.argument("<key>", "Key, or id of the entry");
    scopeOptions(command).requiredOption("--to <version>", "Version to restore, as listed by rf configs history", wholeNumber(1));
  },
  async (client, context, key: string, options: ScopeOptions & { to: number }) => {
    const id = await findEntryId(client, key, options);
    return client.rollBackConfig({ params: { id }, body: { version: options.to }, idempotency_key: context.idempotencyKey() });
  },
  ({ data }, _context, _key, { to }) => [
    line`Set for ${whereOf(data)}: ${data.namespace}/${data.key} = ${valueText(data)} (version ${data.version}, as in version ${to})`,
    line`Not deployed yet: rf configs deploy --namespace ${data.namespace} --fleet <id>`,
  ],
  ["rf configs rollback speed_limit --to 3 --fleet fleet_…"],
);

interface DiffOptions extends ScopeOptions {
  from?: number;
  to?: number;
}

export const diff = defineCommand<[string | undefined, DiffOptions]>(
  "With a key, show the changes between two versions of its value (by default the last two). With only --robot, show what the next config " +
    "deployment would change in the robot's files.",
  (command) => {
    command.argument("[key]", "Key, or id of the entry");
    scopeOptions(command)
      .option("--from <version>", "Older version", wholeNumber(1))
      .option("--to <version>", "Newer version", wholeNumber(1));
  },
  async (context, key, options) => {
    if (key !== undefined) return diffVersions(context, key, options);
    if (options.robot === undefined) throw usage("pass a key, or --robot <id> to see what the next config deployment would change");
    await diffRobot(context, options.robot, options.namespace);
  },
  ["rf configs diff limits --from 3 --to 5", "rf configs diff --robot rob_…"],
);

async function diffRobot(context: Context, id: string, namespace: string | undefined): Promise<void> {
  const { out } = context;
  const answer = await (await context.client()).diffRobotConfig({ params: { id }, query: { namespace } });
  await out.result(answer, () => {
    const { changes } = answer.data;
    if (changes.length === 0) return out.note("The robot's files already have these values: a config deployment would change nothing.");
    for (const { namespace: of, key, change, deployed, effective, secret } of changes) {
      out.line(line`${of}/${key}: ${change}${secret ? " (secret)" : ""}`);
      if (!secret)
        showChanges(context, diffValues(change === "added" ? undefined : deployed, change === "removed" ? undefined : effective));
    }
  });
}

async function diffVersions(context: Context, key: string, options: DiffOptions): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const id = await findEntryId(client, key, options);
  const { from, to } = await readVersions(client, id, options);
  const secret = from.secret || to.secret;
  const changes = secret ? [] : diffValues(valueOf(from), valueOf(to));
  await out.result({ data: { config_id: id, from, to, changes } }, () => {
    out.line(line`Version ${from.version} (${from.at}) → version ${to.version} (${to.at})`);
    if (secret) return out.note("The value is a secret: changes are not shown.");
    if (changes.length === 0) return out.note("Both versions have the same value.");
    return showChanges(context, changes);
  });
}

type Versions = Awaited<ReturnType<Client["listConfigHistory"]>>["items"];

async function readVersions(client: Client, id: string, options: DiffOptions): Promise<{ from: Versions[number]; to: Versions[number] }> {
  const { items } = await readList(client, "listConfigHistory", undefined, { params: { id } });
  const newest = items[0]?.version ?? 1;
  const to = options.to ?? newest;
  const from = options.from ?? Math.max(1, to - 1);
  const find = (version: number): Versions[number] => {
    const found = items.find((one) => one.version === version);
    if (found === undefined) throw new Failure(EXIT.not_found, `version ${version} does not exist: the latest is ${newest}`);
    return found;
  };
  return { from: find(from), to: find(to) };
}

const valueOf = ({ change, value }: Versions[number]): unknown => (change === "removed" ? undefined : value);

function showChanges({ out }: Context, changes: readonly ValueChange[]): void {
  for (const { path, before, after } of changes) {
    const at = path === "" ? "" : `${path}: `;
    if (before !== undefined) out.line(line`${out.paint("bad", `  - ${at}${JSON.stringify(before)}`)}`);
    if (after !== undefined) out.line(line`${out.paint("good", `  + ${at}${JSON.stringify(after)}`)}`);
  }
}

type Fields = Record<string, unknown>;

interface ValueChange {
  /** Path in the value, such as `limits.speed` or `zones[2]`; empty for the root. */
  path: string;
  /** The values before and after the change; undefined if absent. */
  before: unknown;
  after: unknown;
}

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** Compares two JSON values recursively; arrays of different lengths are reported as one change. */
export function diffValues(before: unknown, after: unknown, path = ""): ValueChange[] {
  if (isFields(before) && isFields(after)) {
    return [...new Set([...Object.keys(before), ...Object.keys(after)])]
      .toSorted()
      .flatMap((name) => diffValues(own(before, name), own(after, name), path === "" ? name : `${path}.${name}`));
  }
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length)
    return before.flatMap((item: unknown, at) => diffValues(item, after[at], `${path}[${at}]`));
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }];
}

const own = (fields: Fields, name: string): unknown => (Object.hasOwn(fields, name) ? fields[name] : undefined);

const SCHEMA_BYTES_MAX = 1_048_576;
const ACTIONS = ["list", "show", "set", "remove"] as const;

export const schema = defineCommand<[(typeof ACTIONS)[number], string | undefined, string | undefined]>(
  "List, show, set or remove the JSON Schema (draft 2020-12) of a namespace. A value that violates it is refused when it is set, and " +
    "robots never get a combination of values that violates it.",
  (command) =>
    command
      .argument("<action>", ACTIONS.join(", "), oneOf(ACTIONS))
      .argument("[namespace]", "Namespace of the schema")
      .argument("[file]", "For set: file with the schema; - is stdin"),
  async (context, action, namespace, file) => {
    if (action === "list") return listSchemas(context);
    if (namespace === undefined) throw usage(`a namespace is required: rf configs schema ${action} <namespace>`);
    if (action === "set") return setSchema(context, namespace, file);
    const client = await context.client();
    if (action === "remove") {
      const removed = await client.deleteConfigSchema({ params: { namespace } });
      return context.out.result(removed, () => context.out.line(line`Namespace ${namespace} no longer has a schema.`));
    }
    const answer = await client.getConfigSchema({ params: { namespace } });
    await context.out.result(answer, () => context.out.line(JSON.stringify(answer.data.schema, null, 2)));
  },
  ["rf configs schema set nav nav.schema.json", "rf configs schema show nav", "rf configs schema remove nav"],
);

const listSchemas = (context: Context): Promise<void> =>
  printList(context, "listConfigSchemas", {
    empty: "No namespace has a schema. Set one: rf configs schema set <namespace> <file>",
    columns: [
      { title: "NAMESPACE", value: ({ namespace }) => namespace },
      { title: "VERSION", value: ({ version }) => version },
      { title: "SET", value: ({ updated_at }) => relative(updated_at, context.now()) },
      { title: "BY", value: ({ updated_by }) => updated_by.name ?? updated_by.id ?? updated_by.type },
    ],
  });

async function setSchema(context: Context, namespace: string, file: string | undefined): Promise<void> {
  if (file === undefined) throw usage("a schema file is required: rf configs schema set <namespace> <file>");
  const text = (file === "-" ? await readStdin(SCHEMA_BYTES_MAX) : await readFile(file)).toString();
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    throw usage(`${file} is not valid JSON: ${error instanceof Error ? error.message : ""}`);
  }
  const answer = await (await context.client()).setConfigSchema({ params: { namespace }, body: { schema } });
  await context.out.result(answer, () =>
    context.out.line(line`Schema of namespace ${namespace} is at version ${answer.data.version}: values that violate it are now refused.`),
  );
}
