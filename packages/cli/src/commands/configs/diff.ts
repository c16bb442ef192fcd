import type { Client } from "@roamfleet/sdk";
import { addExamples, type Define, wholeNumber } from "../../command.ts";
import { findEntryId, type ScopeOptions, scopeOptions } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { Failure, usage } from "../../failure.ts";
import { readList } from "../../lists.ts";
import { line } from "../../text.ts";
import { diffValues, type ValueChange } from "../../value-diff.ts";

interface Options extends ScopeOptions {
  from?: number;
  to?: number;
}

export const define: Define = (command, act) => {
  command
    .description(
      "With a key, show the changes between two versions of its value (by default the last two). With --robot only, show what the next config " +
        "deployment would change in the robot's files.",
    )
    .argument("[key]", "Key, or id of the entry");
  scopeOptions(command)
    .option("--from <version>", "Older version", wholeNumber(1))
    .option("--to <version>", "Newer version", wholeNumber(1))
    .action(act<[string | undefined, Options]>(run));
  addExamples(command, ["rf configs diff limits --from 3 --to 5", "rf configs diff --robot rob_…"]);
};

async function run(context: Context, key: string | undefined, options: Options): Promise<void> {
  if (key !== undefined) return diffVersions(context, key, options);
  if (options.robot === undefined) throw usage("pass a key, or --robot <id> to see what the next config deployment would change");
  await diffRobot(context, options.robot, options.namespace);
}

async function diffRobot(context: Context, id: string, namespace: string | undefined): Promise<void> {
  const { out } = context;
  const answer = await (await context.client()).diffRobotConfig({ params: { id }, query: { namespace } });
  await out.result(answer, () => {
    const { changes } = answer.data;
    if (changes.length === 0) return out.note("The robot's files already have these values: a config deployment would change nothing.");
    for (const { namespace: of, key, change, deployed, effective, secret } of changes) {
      out.line(line`${of}/${key}: ${change}${secret ? " (secret)" : ""}`);
      if (!secret) show(context, diffValues(change === "added" ? undefined : deployed, change === "removed" ? undefined : effective));
    }
  });
}

async function diffVersions(context: Context, key: string, options: Options): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const id = await findEntryId(client, key, options);
  const { from, to } = await readVersions(client, id, options);
  const secret = from.secret || to.secret;
  const changes = secret ? [] : diffValues(valueOf(from), valueOf(to));
  await out.result({ data: { config_id: id, from, to, changes } }, () => {
    out.line(line`Version ${from.version} (${from.at}) → version ${to.version} (${to.at})`);
    if (secret) return out.note("The value is a secret: changes are not shown.");
    if (changes.length === 0) return out.note("The value is the same.");
    return show(context, changes);
  });
}

type Versions = Awaited<ReturnType<Client["listConfigHistory"]>>["items"];

async function readVersions(client: Client, id: string, options: Options): Promise<{ from: Versions[number]; to: Versions[number] }> {
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

function show({ out }: Context, changes: readonly ValueChange[]): void {
  for (const { path, before, after } of changes) {
    const at = path === "" ? "" : `${path}: `;
    if (before !== undefined) out.line(line`${out.paint("bad", `  - ${at}${JSON.stringify(before)}`)}`);
    if (after !== undefined) out.line(line`${out.paint("good", `  + ${at}${JSON.stringify(after)}`)}`);
  }
}
