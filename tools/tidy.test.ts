import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { root } from "../bin/launch.mjs";
import { addAddresses, completeLockfile, findMisaddressed, findMissingOptional, findUnverified, type Lockfile } from "./lockfile.ts";
import { findAmbient } from "./tidy/ambient.ts";
import { findBadSubjects, findBadSubjectsInLog } from "./tidy/commits.ts";
import { findCycles } from "./tidy/cycles.ts";
import { findLinkSends } from "./tidy/link-sends.ts";
import { findDeadLinks } from "./tidy/links.ts";
import { findBadNames } from "./tidy/names.ts";
import { findLongSentences } from "./tidy/sentences.ts";
import { findOversize } from "./tidy/size.ts";
import { type Finding, parseSource, readSources } from "./tidy/source.ts";
import { TABLE_OWNERS, WITHOUT_ORG } from "./tidy/table-owners.ts";
import { findBadSql, findBadTables, readTables, type TableRules } from "./tidy/tables.ts";
import { findRuledOutWords, findRuledOutWordsInPages } from "./tidy/words.ts";

const sources = readSources();
const tables = readTables(root);
const rules: TableRules = { owners: TABLE_OWNERS, without_org: WITHOUT_ORG };

function assertTidy(findings: readonly Finding[]): void {
  assert.ok(findings.length === 0, findings.map(({ file, line, message }) => `${file}:${line}: ${message}`).join("\n"));
}

const linesOf = (findings: readonly Finding[]): string[] => findings.map(({ file, line }) => `${file}:${line}`);
const messagesOf = (findings: readonly Finding[]): string[] => findings.map(({ message }) => message);

test("files and functions of the repository are short", () => assertTidy(findOversize(sources)));
test("file names of the repository are kebab-case and specific", () => assertTidy(findBadNames(sources)));
test("product code receives time, randomness and settings as arguments", () => assertTidy(findAmbient(sources)));
test("all messages on a robot's link are sent through the send queue", () => assertTidy(findLinkSends(sources)));
test("the repository has no import cycles, including types and dynamic imports", () => assertTidy(findCycles(sources)));
test("every database table has one owner and an org_id", () => assertTidy(findBadTables(tables, rules)));
test("every SQL statement is in the store of its table's owner and names org_id", () =>
  assertTidy(findBadSql(sources, new Set(tables.keys()), rules)));
test("every link in the documentation has an existing target", () => assertTidy(findDeadLinks(root)));
test("sentences of the documentation have at most 30 words", () => assertTidy(findLongSentences(root)));
test("subjects of new commits are short and imperative", () => assertTidy(findBadSubjectsInLog(root)));
test("no folder in CLEAN_FOLDERS contains a ruled-out word", () =>
  assertTidy([...findRuledOutWords(sources), ...findRuledOutWordsInPages(root)]));

test("every test file with a recorded duration exists", () => {
  const files = Object.keys(JSON.parse(readFileSync(path.join(root, "tools/test-durations.json"), "utf8")) as object);
  const missing = files.filter((file) => !existsSync(path.join(root, file)));
  assert.deepEqual(missing, [], "rename or remove them in tools/test-durations.json");
});

const readLockfile = (): Lockfile => JSON.parse(readFileSync(path.join(root, "package-lock.json"), "utf8")) as Lockfile;

test("the lockfile contains the optional packages of every platform", () => {
  assert.deepEqual(findMissingOptional(readLockfile()), [], "run: node tools/run.mjs tools/lockfile.ts");
});

test("the archive address of each package in the lockfile is at the npm registry", () => {
  assert.deepEqual(findMisaddressed(readLockfile()), [], "run: node tools/run.mjs tools/lockfile.ts");
});

test("finds and corrects archive addresses that are missing or not at the npm registry", () => {
  const [version, integrity] = ["1.0.0", "sha512-x"];
  const right = { version, resolved: "https://registry.npmjs.org/a/-/a-1.0.0.tgz", integrity };
  const lockfile: Lockfile = {
    packages: {
      "packages/own": { version },
      "node_modules/@roamfleet/own": { resolved: "packages/own", link: true },
      "node_modules/a": right,
      "node_modules/a/node_modules/@x/b": { version, resolved: "https://mirror.example/b.tgz", integrity },
      "node_modules/c": { name: "d", version, integrity },
      "node_modules/e-darwin-arm64": { version, os: ["darwin"] },
    },
  };
  const found = ["node_modules/a/node_modules/@x/b", "node_modules/c"];
  assert.deepEqual(findMisaddressed(lockfile), found);
  assert.deepEqual(addAddresses(lockfile), found);
  assert.deepEqual(findMisaddressed(lockfile), []);
  assert.deepEqual(lockfile.packages["node_modules/a"], right);
  const scoped = lockfile.packages["node_modules/a/node_modules/@x/b"];
  assert.equal(scoped?.resolved, "https://registry.npmjs.org/@x/b/-/b-1.0.0.tgz");
  const renamed = lockfile.packages["node_modules/c"];
  assert.deepEqual(Object.entries(renamed ?? {}), [
    ["name", "d"],
    ["version", version],
    ["resolved", "https://registry.npmjs.org/d/-/d-1.0.0.tgz"],
    ["integrity", integrity],
  ]);
});

test("the lockfile has a checksum for every package that a supported platform installs", () => {
  assert.deepEqual(findUnverified(readLockfile()), []);
});

test("finds a package without a checksum only if a supported platform installs it", () => {
  const version = "1.0.0";
  const lockfile: Lockfile = {
    packages: {
      "packages/own": { version },
      "node_modules/@roamfleet/own": { link: true },
      "node_modules/a": { version },
      "node_modules/b": { version, integrity: "sha512-x" },
      "node_modules/b/node_modules/c-linux-arm64-gnu": { version, os: ["linux"], cpu: ["arm64"], libc: ["glibc"] },
      "node_modules/c-linux-x64-musl": { version, os: ["linux"], cpu: ["x64"], libc: ["musl"] },
      "node_modules/c-darwin-arm64": { version, os: ["darwin"], cpu: ["arm64"] },
      "node_modules/c-wasm32-wasi": { version, cpu: ["wasm32"] },
    },
  };
  assert.deepEqual(findUnverified(lockfile), ["node_modules/a", "node_modules/b/node_modules/c-linux-arm64-gnu"]);
});

test("finds and adds packages for other platforms that are missing from the lockfile", () => {
  const optionalDependencies = { "@x/linux-arm64-musl": "1.2.3", "@x/darwin-x64": "1.2.3" };
  const lockfile: Lockfile = {
    packages: { "node_modules/@x/darwin-x64": { version: "1.2.3" }, "node_modules/x": { dev: true, optionalDependencies } },
  };
  assert.deepEqual(findMissingOptional(lockfile), [{ name: "@x/linux-arm64-musl", version: "1.2.3", wanted_by: "node_modules/x" }]);
  assert.deepEqual(completeLockfile(lockfile), ["@x/linux-arm64-musl"]);
  const added = { version: "1.2.3", cpu: ["arm64"], dev: true, libc: ["musl"], optional: true, os: ["linux"] };
  assert.deepEqual(lockfile.packages["node_modules/@x/linux-arm64-musl"], added);
  assert.deepEqual(findMissingOptional(lockfile), []);
});

test("finds a file over 400 lines, or over 600 lines if it is a test", () => {
  const long = "export {};\n".repeat(500);
  const findings = findOversize([parseSource("packages/agent/src/long.ts", long), parseSource("packages/agent/src/long.test.ts", long)]);
  assert.deepEqual(messagesOf(findings), ["500 lines, at most 400"]);
});

test("finds a function over 70 lines, including methods and arrow functions", () => {
  const body = (lines: number): string => "\n".repeat(lines - 1);
  const text = `function a() {${body(71)}}\nconst b = () => {${body(71)}};\nclass C { d() {${body(71)}} }\nfunction e() {${body(70)}}\n`;
  assert.deepEqual(
    linesOf(findOversize([parseSource("packages/agent/src/x.ts", text)])),
    [1, 72, 143].map((line) => `packages/agent/src/x.ts:${line}`),
  );
  const page = `export const Page = () => (<p>${body(71)}</p>);\n`;
  assert.deepEqual(linesOf(findOversize([parseSource("packages/dashboard/src/page.tsx", page)])), ["packages/dashboard/src/page.tsx:1"]);
});

test("finds names that are not kebab-case or too general", () => {
  const named = (file: string, text = "") => findBadNames([parseSource(file, text)]).length;
  assert.equal(named("packages/agent/src/readFile.ts"), 1);
  assert.equal(named("packages/agent/src/utils/read.ts"), 1);
  assert.equal(named("packages/agent/src/robot-manager.ts"), 1);
  assert.equal(named("packages/agent/src/read.ts", "export class RobotService {}"), 1);
  assert.equal(named("packages/dashboard/src/RobotPage.tsx"), 1);
  assert.equal(named("packages/agent/src/read-file.test.ts", "export class Robot {}"), 0);
});

test("finds code that writes to a link's socket without the send queue", () => {
  const text = "ws.send(a);\nthis.#socket.write(b);\nthis.socket.ping();\nqueue.send(c);\nsocket.close();\n";
  const found = (file: string) => linesOf(findLinkSends([parseSource(file, text)]));
  const file = "packages/server/src/link/gateway.ts";
  assert.deepEqual(
    found(file),
    [1, 2, 3].map((line) => `${file}:${line}`),
  );
  assert.deepEqual(found("packages/server/src/link/frame-socket.ts"), []);
  assert.deepEqual(found("packages/server/src/features/streams/streams.ts"), []);
});

test("finds direct use of time, timers, randomness and environment in product code only", () => {
  const text = `
    import { randomUUID } from "node:crypto";
    import { setTimeout as wait } from "node:timers/promises";
    const a = new Date();
    const b = Date.now() + Math.random();
    setTimeout(() => {}, 1);
    globalThis.setInterval(() => {}, 1);
    const c = process.env.HOME;
    const fine = [new Date(0), clock.setTimeout(() => {}, 1), Date.parse("2030-01-01")];`;
  const lines = (file: string) => findAmbient([parseSource(file, text)]).map(({ line }) => line);
  assert.deepEqual(lines("packages/agent/src/x.ts").toSorted(), [2, 3, 4, 5, 5, 6, 7, 8]);
  assert.deepEqual(lines("packages/cli/src/x.ts").toSorted(), [2, 4, 5, 5, 8]);
  assert.deepEqual(lines("packages/agent/src/config.ts").toSorted(), [2, 3, 4, 5, 5, 6, 7]);
  for (const file of ["packages/clock/src/x.ts", "packages/agent/src/x.test.ts", "tools/x.ts", "packages/dashboard/src/ui/x.tsx"])
    assert.deepEqual(lines(file), []);
});

test("finds an import cycle through types, package names and dynamic imports", () => {
  const exports_of = () => ({ ".": "./src/index.ts" });
  const cycle = (a: string, b: string) =>
    findCycles([parseSource("packages/agent/src/a.ts", a), parseSource("packages/agent/src/index.ts", b)], exports_of).length;
  assert.equal(cycle(`import type { B } from "./index.ts";`, `export type { A } from "./a.ts";`), 1);
  assert.equal(cycle(`export * from "@roamfleet/agent";`, `export * from "./a.ts";`), 1);
  assert.equal(cycle(`const b = await import("./index.ts");`, `export * from "./a.ts";`), 1);
});

test("finds SQL that uses another feature's table, does not name org_id or is outside of a store", () => {
  const owned: TableRules = {
    owners: { robot: "features/robots", site: "features/sites", node: "link" },
    without_org: new Set(["node"]),
  };
  const found = (file: string, statement: string) =>
    messagesOf(
      findBadSql(
        [parseSource(`packages/server/src/${file}`, `export const s = sql(row)\`${statement}\`;`)],
        new Set(["robot", "site", "node"]),
        owned,
      ),
    );
  assert.deepEqual(found("features/robots/store.ts", "select id from robot where org_id = ${o}"), []);
  assert.deepEqual(
    found("features/robots/store.ts", "-- reads tables of other features: site\n select id from robot r join site s using (org_id)"),
    [],
  );
  assert.deepEqual(found("features/robots/store.ts", "-- across orgs: a sweep\n select id from robot"), []);
  assert.deepEqual(found("features/robots/store.ts", "select id from robot r join site s using (org_id)"), [
    "table site belongs to features/sites",
  ]);
  assert.deepEqual(found("features/robots/store.ts", "-- reads tables of other features: site\n update site set org_id = 1"), [
    "table site belongs to features/sites",
    "says that it reads site, and does not",
  ]);
  assert.deepEqual(found("features/robots/store.ts", "select id from robot for update skip locked"), [
    "a statement on tenant data names org_id",
  ]);
  assert.deepEqual(found("features/robots/store.ts", "update site set org_id = 1"), ["table site belongs to features/sites"]);
  assert.deepEqual(found("features/sites/store.ts", "with a as (delete from robot where org_id = 1) select 1"), [
    "table robot belongs to features/robots",
  ]);
  assert.deepEqual(found("features/sites/store.ts", "select 1 from site s, robot r where s.org_id = r.org_id"), [
    "table robot belongs to features/robots",
  ]);
  assert.deepEqual(found("features/sites/create.ts", "select 1 from site where org_id = 1"), ["a feature's SQL belongs in its store.ts"]);
  assert.deepEqual(found("link/presence.ts", "select epoch from node where id = ${id}"), []);
});

test("finds a table without an owner or without an org", () => {
  const made = new Map([
    ["robot", { file: "1.sql", has_org_id: true }],
    ["secret", { file: "1.sql", has_org_id: false }],
  ]);
  const messages = messagesOf(findBadTables(made, { owners: { robot: "features/robots", gone: "link" }, without_org: new Set() }));
  assert.deepEqual(messages, [
    "table secret has no owner in tools/tidy/table-owners.ts",
    "table secret has no org_id and is not exempt",
    "no migration creates gone",
  ]);
});

test("finds links to missing files and headings", (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-links-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  mkdirSync(path.join(directory, "docs"));
  writeFileSync(
    path.join(directory, "README.md"),
    "# Top\n[a](docs/a.md) [b](docs/gone.md)\n[c](docs/a.md#how-it-works) [d](docs/a.md#gone) [e](#top)\n[f](https://example.org)\n",
  );
  writeFileSync(path.join(directory, "docs", "a.md"), "## How it works\n```\n[x](nowhere)\n```\n[out](../../etc/passwd)\n");
  assert.deepEqual(linesOf(findDeadLinks(directory)), ["README.md:2", "README.md:3", "docs/a.md:5"]);
});

test("finds a sentence over 30 words in prose, list items and table cells", (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-sentences-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  mkdirSync(path.join(directory, "docs"));
  const words = (count: number): string => Array.from({ length: count }, (_, number) => `w${number}`).join(" ");
  const page = [
    `${words(31)}.`,
    `${words(30)}. ${words(30)}.`,
    words(20),
    `${words(20)} \`a b c\` [x](y)`,
    "",
    `- ${words(20)}`,
    `- ${words(20)}`,
    `| ${words(31)} | ${words(20)} |`,
    `| ${words(20)} | ${words(20)} |`,
    "```",
    words(40),
    "```",
    `1.5 ${words(15)} \`v1.2. ${words(20)}\` ${words(14)}`,
  ].join("\n");
  writeFileSync(path.join(directory, "docs", "a.md"), page);
  writeFileSync(path.join(directory, "docs", "b.md"), `<!-- Written by a program -->\n${words(40)}`);
  assert.deepEqual(linesOf(findLongSentences(directory)), ["docs/a.md:1", "docs/a.md:3", "docs/a.md:8", "docs/a.md:13"]);
});

test("finds commit subjects that are too long or do not have the form area: imperative verb object", () => {
  const good = ["agent: process reports", "sdk, swarm: pass the clock", "deploy.yaml: bring 2 servers", "tools: need no build"];
  const bad = [
    "wip",
    "agent: fixed a bug",
    "Agent: fix a bug",
    "agent: what runs is stopped",
    "agent: renames files",
    "agent: fix it.",
    "agent: fix",
  ];
  const long = `agent: fix ${"x".repeat(62)}`;
  const problems = (subject: string): number => findBadSubjects([`0123abcd ${subject}`]).length;
  assert.deepEqual(
    good.filter((subject) => problems(subject) !== 0),
    [],
  );
  assert.deepEqual(
    [...bad, long].filter((subject) => problems(subject) !== 1),
    [],
  );
});
