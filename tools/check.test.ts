import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { before, after, test } from "node:test";
import { root } from "../bin/launch.mjs";

const TIMEOUT_MS = 120_000;
const SERVER = "packages/server/src";
const DASHBOARD = "packages/dashboard/src";

interface Planted {
  file: string;
  text: string;
  /** The rule that must report the line; undefined: no rule may report it. */
  rule: string | undefined;
}

const BOUNDARY = "no-restricted-imports";

const PLANTED: readonly Planted[] = [
  { file: "packages/protocol/src/ours.ts", text: `export * from "@roamfleet/clock";`, rule: BOUNDARY },
  { file: "packages/clock/src/ours.ts", text: `export * from "@roamfleet/protocol/link";`, rule: BOUNDARY },
  { file: "packages/sdk/src/up.ts", text: `export * from "@roamfleet/cli";`, rule: BOUNDARY },
  { file: "packages/cli/src/server.ts", text: `export * from "@roamfleet/server";`, rule: BOUNDARY },
  { file: "packages/agent/src/sdk.ts", text: `export * from "@roamfleet/sdk";`, rule: BOUNDARY },
  { file: "packages/agent/src/path.ts", text: `export * from "../../server/src/index.ts";`, rule: BOUNDARY },
  { file: "packages/agent/src/allowed.ts", text: `export * from "@roamfleet/protocol/link";`, rule: undefined },
  { file: `${SERVER}/kernel/up.ts`, text: `export * from "../engines/db/pool.ts";`, rule: BOUNDARY },
  { file: `${SERVER}/engines/bus/up.ts`, text: `export * from "../../link/gateway.ts";`, rule: BOUNDARY },
  { file: `${SERVER}/link/up.ts`, text: `export * from "../features/robots/index.ts";`, rule: BOUNDARY },
  { file: `${SERVER}/link/allowed.ts`, text: `export * from "../engines/db/pool.ts";`, rule: undefined },
  { file: `${SERVER}/features/orgs/deep.ts`, text: `export * from "../robots/store.ts";`, rule: BOUNDARY },
  { file: `${SERVER}/features/orgs/type.ts`, text: `export type { Robot } from "../robots/store.ts";`, rule: BOUNDARY },
  { file: `${SERVER}/features/orgs/around.ts`, text: `export * from "../../features/robots/store.ts";`, rule: BOUNDARY },
  { file: `${SERVER}/features/orgs/index-allowed.ts`, text: `export * from "../robots/index.ts";`, rule: undefined },
  { file: `${SERVER}/features/orgs/layer-allowed.ts`, text: `export * from "../../kernel/sql.ts";`, rule: undefined },
  { file: `${SERVER}/plane.ts`, text: `export * from "./features/robots/store.ts";`, rule: BOUNDARY },
  { file: `${SERVER}/features/orgs/driver.ts`, text: `export { Pool } from "pg";`, rule: BOUNDARY },
  { file: `${SERVER}/engines/db/driver-allowed.ts`, text: `export { Pool } from "pg";`, rule: undefined },
  { file: `${SERVER}/features/orgs/http.ts`, text: `export type { FastifyInstance } from "fastify";`, rule: BOUNDARY },
  { file: `${SERVER}/kernel/serve-stream.ts`, text: `export type { FastifyInstance } from "fastify";`, rule: undefined },
  { file: `${SERVER}/features/orgs/page.ts`, text: `export * from "@roamfleet/dashboard";`, rule: BOUNDARY },
  { file: `${DASHBOARD}/whole-sdk.ts`, text: `export * from "@roamfleet/sdk";`, rule: BOUNDARY },
  { file: `${DASHBOARD}/schemas.ts`, text: `export { routes } from "@roamfleet/protocol/routes";`, rule: BOUNDARY },
  { file: `${DASHBOARD}/clock.ts`, text: `export * from "@roamfleet/clock";`, rule: BOUNDARY },
  { file: `${DASHBOARD}/allowed.ts`, text: `export { createBrowserClient } from "@roamfleet/sdk/browser";`, rule: undefined },
  { file: `${DASHBOARD}/type-allowed.ts`, text: `export type { Robot } from "@roamfleet/protocol/routes";`, rule: undefined },
  { file: `${DASHBOARD}/paths-allowed.ts`, text: `export * from "@roamfleet/protocol/paths";`, rule: undefined },
  {
    file: `${DASHBOARD}/danger.tsx`,
    text: `export const Html = ({ text }: { text: string }) => <p dangerouslySetInnerHTML={{ __html: text }} />;`,
    rule: "no-danger",
  },
  {
    file: `${DASHBOARD}/hook.tsx`,
    text: `import { useId } from "react";\nexport const Maybe = ({ on }: { on: boolean }) => { if (on) useId(); return <p>x</p>; };`,
    rule: "rules-of-hooks",
  },
  {
    file: "packages/agent/src/float.ts",
    text: `async function work(): Promise<void> {}\nexport function start(): void { work(); }`,
    rule: "no-floating-promises",
  },
  {
    file: "packages/agent/src/misuse.ts",
    text: `export const run = (ids: string[]): void => ids.forEach(async (id) => { await Promise.resolve(id); });`,
    rule: "no-misused-promises",
  },
  { file: "packages/agent/src/any.ts", text: `export const value: any = 1;`, rule: "no-explicit-any" },
  { file: "packages/agent/src/cycle-a.ts", text: `export * from "./cycle-b.ts";`, rule: "no-cycle" },
  { file: "packages/agent/src/cycle-b.ts", text: `export * from "./cycle-a.ts";`, rule: "no-cycle" },
  {
    file: "packages/agent/src/quiet.test.ts",
    text: `import { test } from "node:test";\ntest("no await needed", () => {});`,
    rule: undefined,
  },
];

let directory: string;

before(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "roamfleet-lint-"));
  for (const name of [".oxlintrc.json", "tsconfig.json", "package.json"]) await cp(path.join(root, name), path.join(directory, name));
  await symlink(path.join(root, "node_modules"), path.join(directory, "node_modules"));
  for (const { file, text } of PLANTED) {
    await mkdir(path.dirname(path.join(directory, file)), { recursive: true });
    await writeFile(path.join(directory, file), `${text}\n`);
  }
});

after(() => rm(directory, { recursive: true, force: true }));

test("lint reports every planted violation and no allowed line", { timeout: TIMEOUT_MS }, () => {
  const oxlint = path.join(root, "node_modules", ".bin", "oxlint");
  const { stdout, status } = spawnSync(process.execPath, [oxlint, "--format=unix"], {
    cwd: directory,
    encoding: "utf8",
    timeout: TIMEOUT_MS,
  });
  const found = stdout.split("\n").map((line) => ({ line, file: line.slice(0, Math.max(0, line.indexOf(":"))) }));
  for (const { file, rule } of PLANTED) {
    const lines = found.filter((entry) => entry.file.endsWith(file)).map((entry) => entry.line);
    if (rule === undefined) assert.deepEqual(lines, [], `${file} is allowed`);
    else
      assert.ok(
        lines.some((line) => line.includes(`(${rule})`)),
        `${file} must break ${rule}; oxlint said: ${lines.join("; ") || "nothing"}`,
      );
  }
  assert.equal(status, 1);
});
