import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import type { Client } from "@roamfleet/sdk";
import { addExamples, type Define } from "../../command.ts";
import { type ConfigEntry, findEntry, type ScopeOptions, scopeOptions, valueText, whereOf } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { EXIT } from "../../exit-codes.ts";
import { Failure, usage } from "../../failure.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Open a value as JSON in $VISUAL or $EDITOR, and set the saved value. Robots get it with the next config deployment.")
    .argument("<key>", "Key, or id of the entry");
  scopeOptions(command).action(act<[string, ScopeOptions]>(run));
  addExamples(command, ["rf configs edit zones --fleet fleet_…"]);
};

async function run(context: Context, key: string, options: ScopeOptions): Promise<void> {
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
}

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
      hints: ["Edit it again."],
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
  // Runs in a shell, as git does, because EDITOR may contain arguments. stdout is for the result.
  const child = spawn("/bin/sh", ["-c", `${editor} "$1"`, "sh", file], { stdio: ["inherit", process.stderr, "inherit"] });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Failure(EXIT.error, `the editor exited with ${code ?? "a signal"}; nothing was set`);
}

const withHint = ({ exit_code, message, hints, document, cause }: Failure, hint: string): Failure =>
  new Failure(exit_code, message, { hints: [...hints, hint], document, cause });
