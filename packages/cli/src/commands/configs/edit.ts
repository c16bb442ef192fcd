import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { addExamples, type Define } from "../../command.ts";
import { type ConfigEntry, findEntry, type ScopeOptions, scopeOptions, valueText, whereOf } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { Failure, usage } from "../../failure.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Open a value as JSON in $VISUAL or $EDITOR, and set what is saved. Robots get it by the next config deployment.")
    .argument("<key>", "Key, or id of the entry");
  scopeOptions(command).action(act<[string, ScopeOptions]>(run));
  addExamples(command, ["rf configs edit zones --fleet fleet_…"]);
};

async function run(context: Context, key: string, options: ScopeOptions): Promise<void> {
  const { out, environment } = context;
  const { editor } = environment;
  if (editor === undefined) throw usage("no editor is known: set VISUAL or EDITOR, or use rf configs set");
  const client = await context.client();
  const entry = await findEntry(client, key, options);
  if (entry.secret) throw usage("a secret is shown to nobody, so it cannot be edited: rf configs set --secret");
  const value = await edit(editor, entry);
  if (JSON.stringify(value) === JSON.stringify(entry.value)) {
    return out.result({ data: entry }, () => out.note("Nothing was changed."));
  }
  const { namespace, scope, scope_id } = entry;
  const now = (await client.getConfig({ params: { id: entry.id } })).data;
  if (now.version !== entry.version)
    throw new Failure(EXIT.conflict, `somebody else set version ${now.version} meanwhile: nothing was set`, { hints: ["Edit it again."] });
  const at = scope === "org" ? {} : { scope, scope_id: scope_id ?? undefined };
  const answer = await client.setConfig({ body: { key: entry.key, value, namespace, ...at }, idempotency_key: context.idempotencyKey() });
  await out.result(answer, () =>
    out.line(line`Set for ${whereOf(answer.data)}: ${namespace}/${entry.key} = ${valueText(answer.data)} (version ${answer.data.version})`),
  );
}

/** What the editor left; a text that is no JSON is refused, and lost with the file. */
async function edit(editor: string, entry: ConfigEntry): Promise<unknown> {
  const directory = await mkdtemp(path.join(tmpdir(), "rf-"));
  const file = path.join(directory, "value.json");
  try {
    await writeFile(file, `${JSON.stringify(entry.value, null, 2)}\n`, { mode: 0o600 });
    // By a shell, as git does: EDITOR may hold arguments. stdout is for the result.
    const child = spawn("/bin/sh", ["-c", `${editor} "$1"`, "sh", file], { stdio: ["inherit", process.stderr, "inherit"] });
    const [code] = (await once(child, "exit")) as [number | null];
    if (code !== 0) throw new Failure(EXIT.error, `the editor ended with ${code ?? "a signal"}: nothing was set`);
    const text = await readFile(file, "utf8");
    try {
      return JSON.parse(text) as unknown;
    } catch (error) {
      throw usage(`what was saved is no JSON, and nothing was set: ${error instanceof Error ? error.message : ""}`);
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
