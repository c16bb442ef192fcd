import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { buildAgent } from "../../packages/agent/build.ts";
import { buildCli } from "../../packages/cli/build.ts";
import { readCommitDate } from "../../tools/bundle.ts";
import { readCommit } from "@roamfleet/protocol/version";
import metadata from "../../package.json" with { type: "json" };

const LIMIT = { timeout: 120_000 };
const ROOT = path.resolve(import.meta.dirname, "../..");
const MAINS = ["server", "cli", "agent"].map((name) => path.join(ROOT, "packages", name, "src/main.ts"));
const commit = readCommit(ROOT);
const date = commit === undefined ? undefined : readCommitDate(ROOT, commit)?.slice(0, 10);
const expected = (origin: string): string =>
  commit === undefined ? metadata.version : `${metadata.version} (commit ${commit.slice(0, 7)}, ${origin})`;
const versionOf = (program: string): string =>
  execFileSync(process.execPath, [program, "--version"], { cwd: os.tmpdir(), encoding: "utf8" }).trim();

test("server, rf and agent print the same version with the commit of the clone", LIMIT, () => {
  const from_source = expected("from source");
  assert.deepEqual(MAINS.map(versionOf), [from_source, from_source, from_source]);
});

test("bundled rf and agent print the commit that they were built from and its date, in any directory", LIMIT, async (t) => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-versions-"));
  t.after(() => fs.rmSync(directory, { recursive: true }));
  const programs = [
    await buildCli(path.join(directory, "packages/cli/dist")),
    await buildAgent(path.join(directory, "packages/agent/dist")),
  ];
  fs.mkdirSync(path.join(directory, ".git"));
  fs.writeFileSync(path.join(directory, ".git/HEAD"), "0".repeat(40));
  assert.match(date ?? "", /^\d{4}-\d\d-\d\d$/);
  assert.deepEqual(programs.map(versionOf), [expected(date ?? ""), expected(date ?? "")]);
});
