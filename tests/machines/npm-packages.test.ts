import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { root } from "../../bin/launch.mjs";
import metadata from "../../package.json" with { type: "json" };
import { buildPackages } from "./build-packages.ts";
import { MACHINES_FULL } from "./virtual-machine.ts";

const LIMIT = { timeout: 300_000, skip: MACHINES_FULL ? false : "builds all packages: npm run test:machines" };
const COMMAND_MS_MAX = 120_000;
const TSC = path.join(root, "node_modules/typescript/bin/tsc");
const BUILT = /^\d+\.\d+\.\d+ \(commit [0-9a-f]{7}, \d{4}-\d{2}-\d{2}\)\n$/;
const PROGRAM = `import { createClient } from "@roamfleet/sdk";
const { items } = await createClient({ base_url: "http://127.0.0.1", token: "t" }).listRobots({ query: { status: "online" } });
export const name: string | undefined = items[0]?.name;
// @ts-expect-error -- the types know the fields of a robot
export const missing = items[0]?.no_such_field;
`;

const scratch = mkdtempSync(path.join(tmpdir(), "roamfleet-npm-"));
after(() => rmSync(scratch, { recursive: true, force: true }));
const directory = path.join(scratch, "project");
const run = (command: string, args: readonly string[], cwd = directory): string =>
  execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], timeout: COMMAND_MS_MAX });

/** Builds all packages for one architecture. Returns their directory. */
function build(name: string): string {
  const out = path.join(scratch, name);
  const key = path.join(scratch, "key.pem");
  buildPackages(out, "--arch", "amd64", "--sign", key);
  return out;
}

let packages = "";
before(
  () => {
    if (!MACHINES_FULL) return;
    run("openssl", ["genpkey", "-algorithm", "ed25519", "-out", path.join(scratch, "key.pem")], root);
    packages = build("packages");
    mkdirSync(directory);
    writeFileSync(path.join(directory, "package.json"), '{ "private": true, "type": "module" }');
    const tarballs = readdirSync(packages).filter((name) => name.endsWith(".tgz"));
    run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", ...tarballs.map((name) => path.join(packages, name))]);
  },
  { timeout: LIMIT.timeout },
);

test("two builds with the same signing key write identical packages", LIMIT, () => {
  const again = build("again");
  for (const name of ["SHA256SUMS", "SHA256SUMS.sig", "manifest.json"])
    assert.equal(readFileSync(path.join(again, name), "utf8"), readFileSync(path.join(packages, name), "utf8"));
});

test("the npm packages run in an empty directory: rf, and a server with its dashboard", LIMIT, async () => {
  assert.match(run("npx", ["rf", "--version"]), BUILT);
  const program = path.join(directory, "node_modules/.bin/roamfleet");
  assert.match(run(program, ["--version"]), BUILT);
  const server = spawn(program, ["serve", "--data", path.join(scratch, "data"), "--listen", "127.0.0.1:0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(server, "close");
  try {
    let output = "";
    server.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    const address = await until("the server to listen", () => /"(http:\/\/127\.0\.0\.1:\d+)"/.exec(output)?.[1]);
    await until("the server to be ready", async () => (await fetch(`${address}/readyz`)).ok);
    assert.match(await (await fetch(address)).text(), /<!doctype html>[\s\S]*\/assets\//);
    assert.equal((await fetch(`${address}/docs`)).status, 200);
    assert.equal((await fetch(`${address}/install.sh`)).status, 404, "this server hosts no packages");
  } finally {
    server.kill("SIGTERM");
    await ended;
  }
});

test("a program that uses the SDK compiles with the SDK's published types", LIMIT, () => {
  writeFileSync(path.join(directory, "program.ts"), PROGRAM);
  const compilerOptions = { module: "nodenext", target: "es2024", strict: true, skipLibCheck: false, noEmit: true };
  writeFileSync(path.join(directory, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["program.ts"] }));
  run(process.execPath, [TSC, "--project", directory]);
});

test("the bill of materials lists the packages in the programs, but no development tools", LIMIT, () => {
  interface Bom {
    bomFormat: string;
    specVersion: string;
    components: { name: string; version: string; licenses?: unknown[]; purl: string }[];
  }
  const bom = JSON.parse(readFileSync(path.join(packages, `roamfleet_${metadata.version}.cdx.json`), "utf8")) as Bom;
  assert.equal(bom.bomFormat, "CycloneDX");
  const names = new Set(bom.components.map(({ name }) => name));
  for (const name of ["ws", "pg", "fastify", "commander", "pino"]) assert.ok(names.has(name), name);
  for (const name of ["typescript", "oxlint", "knip", "playwright-core"]) assert.ok(!names.has(name), name);
  assert.deepEqual(
    bom.components.filter(({ purl, version }) => !purl.startsWith("pkg:npm/") || version === ""),
    [],
  );
});
