import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, test } from "node:test";
import { registry } from "../../packages/cli/src/registry.ts";
import { Answers, JSON_ANSWERS } from "./answers.ts";
import { Stage, Theatre } from "./stage.ts";
import { describe, parseTranscript, type Printed, type Step, writeTranscript } from "./transcript.ts";

const LIMIT = { timeout: 300_000 };
const FILES = globSync("*.txt", { cwd: import.meta.dirname }).toSorted();
const UPDATES = process.env.UPDATE_TRANSCRIPTS === "1";

const theatre = await Theatre.open();
after(() => theatre[Symbol.asyncDispose]());
const answers = new Answers((await (await fetch(`${theatre.plane.url}/openapi.json`)).json()) as ConstructorParameters<typeof Answers>[0]);

const COMMANDS = registry.flatMap(({ commands }) =>
  commands.flatMap((entry) => ("verbs" in entry ? entry.verbs.map(({ name }) => `${entry.name} ${name}`) : [entry.name])),
);

/** The verb of each noun that runs if none is named. */
const DEFAULT_VERBS = new Map(
  registry.flatMap(({ commands }) => commands.flatMap((entry) => ("verbs" in entry ? [[entry.name, entry.default_verb]] : []))),
);

/** Returns the commands of `rf` in a shell line. */
const commandsIn = (line: string): string[] =>
  [...line.matchAll(/(?:^|[;|&(] ?|\s)rf ((?:(?:-o \w+|--?[\w-]+=\S+|--json) )*)([a-z][a-z-]*)(?: ([a-z]+))?/g)].flatMap(
    ([, , noun = "", verb = ""]) =>
      [`${noun} ${verb}`, noun, `${noun} ${DEFAULT_VERBS.get(noun)}`].filter((name) => COMMANDS.includes(name)).slice(0, 1),
  );

const asksJson = (line: string): boolean => /^(?:[A-Z_]+=\S* )*rf /.test(line) && / (--json|-o json)\b/.test(line) && !/\||yaml/.test(line);

function write(line: string, result: Printed): string[] {
  if (!asksJson(line)) return describe(result);
  const [command = ""] = commandsIn(line);
  assert.match(result.stdout, /^\{.*\}\n$/, `${line} prints a document; on stderr: ${result.stderr}`);
  const document: unknown = JSON.parse(result.stdout);
  const shown = answers.describe(JSON_ANSWERS[command] ?? null, document, result.code !== 0);
  return describe({ ...result, stdout: shown });
}

async function play(stage: Stage, step: Step): Promise<Step> {
  if (step.kind === "%") await stage.act(step.text);
  if (step.kind !== "$") return { ...step, printed: [] };
  const lines = write(step.text, await stage.run(step.text));
  return { ...step, printed: lines.map((line) => stage.names.hide(line).trimEnd()) };
}

for (const file of FILES) {
  test(`rf prints exactly the output in the transcript ${file}`, LIMIT, async () => {
    const place = path.join(import.meta.dirname, file);
    const text = await readFile(place, "utf8");
    const stage = await Stage.set(theatre, path.basename(file, ".txt"));
    const played: Step[] = [];
    for (const step of parseTranscript(text)) played.push(await play(stage, step));
    const now = writeTranscript(played);
    if (UPDATES) await writeFile(place, now);
    else assert.equal(now, text, "UPDATE_TRANSCRIPTS=1 rewrites the file: review the diff");
  });
}

test("every rf command is in a transcript, with and without --json", async () => {
  const lines: string[] = [];
  for (const file of FILES) {
    const steps = parseTranscript(await readFile(path.join(import.meta.dirname, file), "utf8"));
    lines.push(...steps.filter(({ kind }) => kind === "$").map(({ text }) => text));
  }
  const shown = new Set(lines.flatMap(commandsIn));
  assert.deepEqual(
    COMMANDS.filter((name) => !shown.has(name)),
    [],
  );
  const as_json = new Set(lines.filter(asksJson).flatMap(commandsIn));
  assert.deepEqual(
    COMMANDS.filter((name) => !as_json.has(name) && !["completion", "api"].includes(name)),
    [],
  );
  assert.deepEqual(Object.keys(JSON_ANSWERS).toSorted(), COMMANDS.toSorted());
});
