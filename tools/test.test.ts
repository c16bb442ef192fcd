import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { root } from "../bin/launch.mjs";
import { parseList } from "./debian.ts";

const TIMEOUT_MS = 120_000;
// With these variables, a `node --test` started by a test would report to the outer runner instead of running.
const { NODE_TEST_CONTEXT: _, CI: __, ...env } = process.env;

/** Creates a repository with only the launcher, the runner and the given files. */
async function repositoryWith(t: TestContext, files: Record<string, string>): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-runner-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  await cp(path.join(root, "bin"), path.join(directory, "bin"), { recursive: true });
  await mkdir(path.join(directory, "tools"));
  await writeFile(path.join(directory, "package.json"), `{ "type": "module" }`);
  for (const name of ["run.mjs", "test.ts", "test-counts.ts", "test-attribution.ts", "test-processes.ts", "process-guard.ts", "debian.ts"])
    await cp(path.join(root, "tools", name), path.join(directory, "tools", name));
  await writeFile(path.join(directory, "tools", "debian-packages.txt"), "# none\n");
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(directory, name)), { recursive: true });
    await writeFile(path.join(directory, name), text);
  }
  return directory;
}

function runTests(directory: string, ...args: string[]) {
  return runTestsWith({}, directory, ...args);
}

function runTestsWith(more: Record<string, string>, directory: string, ...args: string[]) {
  const result = spawnSync(process.execPath, ["tools/run.mjs", "tools/test.ts", ...args], {
    cwd: directory,
    env: { ...env, ...more },
    encoding: "utf8",
    timeout: TIMEOUT_MS,
  });
  return { ...result, last_line: result.stdout.trimEnd().split("\n").at(-1) };
}

const PASSING = `import { test } from "node:test"; test("passes", () => {}); test("skips", { skip: "no program" }, () => {});`;
const FAILING = `import { test } from "node:test"; test("fails", () => { throw new Error("as planned"); });`;

test("npm test ends its output with the numbers of passed, failed and skipped tests", { timeout: TIMEOUT_MS }, async (t) => {
  const directory = await repositoryWith(t, { "tests/a.test.ts": PASSING, "packages/x/src/b.test.ts": FAILING });
  const both = runTests(directory);
  assert.equal(both.last_line, "1 passed, 1 failed, 1 skipped");
  assert.equal(both.status, 1);
  const filtered = runTests(directory, "tests/a");
  assert.equal(filtered.last_line, "1 passed, 0 failed, 1 skipped");
  assert.equal(filtered.status, 0);
});

const COUNTING = `import { test } from "node:test"; test("has " + process.env.ROAMFLEET_TEST_NODES + " nodes", () => {});`;

test("npm test passes --nodes on to every test file, but not to Node", { timeout: TIMEOUT_MS }, async (t) => {
  const directory = await repositoryWith(t, { "tests/a.test.ts": COUNTING });
  for (const words of [
    ["--nodes", "3"],
    ["--nodes=3", "tests/a"],
  ]) {
    const { stdout, last_line } = runTests(directory, ...words);
    assert.match(stdout, /has 3 nodes/);
    assert.equal(last_line, "1 passed, 0 failed, 0 skipped");
  }
  const wrong = runTests(directory, "--nodes", "many");
  assert.match(wrong.stderr, /--nodes many: expected 1 to 9/);
  assert.equal(wrong.status, 1);
});

test("npm test fails without any test, with an unmatched filter, and for an empty file", { timeout: TIMEOUT_MS }, async (t) => {
  const directory = await repositoryWith(t, {
    "tests/empty.test.ts": "export {};",
    "tests/crash.test.ts": `throw new Error("at import");`,
  });
  const unmatched = runTests(directory, "nowhere");
  assert.equal(unmatched.last_line, "0 passed, 0 failed, 0 skipped");
  assert.equal(unmatched.status, 1);
  const empty = runTests(directory, "empty");
  assert.equal(empty.last_line, "0 passed, 1 failed, 0 skipped");
  assert.equal(empty.status, 1);
  const crash = runTests(directory, "crash");
  assert.equal(crash.last_line, "0 passed, 1 failed, 0 skipped");
  assert.equal(crash.status, 1);
});

const TELLS_PROCESS = `import { test } from "node:test"; test("in process " + process.pid, () => {});`;

test("test files share processes unless they request a separate one", { timeout: TIMEOUT_MS }, async (t) => {
  const files = Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`tests/${n}.test.ts`, TELLS_PROCESS]));
  const directory = await repositoryWith(t, { ...files, "tests/own.test.ts": `// Separate process: for a test.\n${TELLS_PROCESS}` });
  const { stdout, last_line } = runTests(directory);
  assert.equal(last_line, "10 passed, 0 failed, 0 skipped");
  const processes = Array.from(stdout.matchAll(/in process (\d+)/g), ([, pid]) => pid);
  assert.equal(processes.length, 10);
  assert.equal(processes.filter((pid) => pid === processes[0]).length, 1, stdout);
  assert.ok(new Set(processes).size <= 4, stdout);
});

const WITH_HOOKS = `
  import { after, before, test } from "node:test";
  let ready = false;
  before(async () => { await new Promise((resolve) => setTimeout(resolve, 20)); ready = true; });
  after(() => console.log("after " + import.meta.filename));
  test("is prepared", () => { if (!ready) throw new Error("too early"); });`;

test("hooks, failures and crashes of a test file do not affect other files in its process", { timeout: TIMEOUT_MS }, async (t) => {
  const directory = await repositoryWith(t, {
    "tests/a.test.ts": WITH_HOOKS,
    "tests/b.test.ts": WITH_HOOKS,
    "tests/crash.test.ts": `throw new Error("at import");`,
    "tests/empty.test.ts": "export {};",
    "tests/late.test.ts": `import { after, test } from "node:test"; after(() => { throw new Error("in the end"); }); test("passes", () => {});`,
    "tests/c.test.ts": FAILING,
  });
  const { stdout, stderr, last_line, status } = runTests(directory);
  assert.equal(stdout.match(/^after .*[ab]\.test\.ts$/gm)?.length, 2, stdout);
  assert.match(stderr, /tests\/empty\.test\.ts holds no test/);
  // The four failures are the failing test, the crash, the empty file and the failing hook.
  assert.equal(last_line, "3 passed, 4 failed, 0 skipped", `${stdout}\n${stderr}`);
  assert.equal(status, 1);
});

test("npm test fails if a test file exits before its tests have run, and names the file", { timeout: TIMEOUT_MS }, async (t) => {
  const ending = `import { test } from "node:test"; test("ends", () => process.exit(0)); test("never runs", () => {});`;
  const directory = await repositoryWith(t, { "tests/a.test.ts": PASSING, "tests/ends.test.ts": ending });
  const { stderr, status } = runTests(directory);
  assert.match(stderr, /did not end: .*tests\/ends\.test\.ts/);
  assert.equal(status, 1);
});

test("npm test names a file that exits early, leaves a server open or fails after its tests", { timeout: TIMEOUT_MS }, async (t) => {
  const directory = await repositoryWith(t, {
    "tests/a.test.ts": PASSING,
    "tests/ends.test.ts": `import { test } from "node:test"; test("ends", () => process.exit(3));`,
    "tests/open.test.ts": `
      import { createServer } from "node:net"; import { test } from "node:test";
      test("listens", () => new Promise((resolve) => createServer().listen(0, resolve)));`,
    "tests/late.test.ts": `
      import { test } from "node:test";
      test("passes", () => void setTimeout(() => { throw new Error("too late"); }, 50));
      test("waits", () => new Promise((resolve) => setTimeout(resolve, 300)));`,
    "tests/z.test.ts": PASSING,
  });
  const { stdout, stderr, status } = runTestsWith({ ROAMFLEET_TEST_END_MS: "1000" }, directory);
  // The exit may also lose the results of earlier files in the same process.
  assert.match(stderr, /did not end: .*tests\/ends\.test\.ts/, stdout);
  assert.match(stderr, /tests\/open\.test\.ts: left open: TCPServerWrap$/m);
  assert.match(stderr, /tests\/late\.test\.ts: an error outside of its tests/);
  assert.doesNotMatch(stderr, /^roamfleet: tests\/[az]/m);
  assert.equal(status, 1);
});

const FAILING_OUTSIDE = `
  import { createServer, request } from "node:http"; import { after, test } from "node:test";
  const wait = () => new Promise((resolve) => setTimeout(resolve, 100));
  test("exception in a timer", async () => { setTimeout(() => { throw new Error("planned"); }, 10); await wait(); });
  test("rejection", async () => { wait().then(() => { throw new Error("planned"); }); await wait(); await wait(); });
  test("exception in a request", async (t) => {
    const server = createServer(() => { throw new Error("planned"); });
    t.after(() => { server.closeAllConnections(); server.close(); });
    await new Promise((resolve) => server.listen(0, resolve));
    request({ port: server.address().port }).on("error", () => {}).end();
    await wait();
  });
  test("test inside", async () => { await wait(); await test("inside", async () => { await wait(); throw new Error("planned"); }); });
  test("passes", async () => { await wait(); after(() => console.log("after " + import.meta.filename)); });`;

test("an uncaught error fails the test that caused it, and only that one", { timeout: TIMEOUT_MS }, async (t) => {
  const directory = await repositoryWith(t, { "tests/a.test.ts": FAILING_OUTSIDE, "tests/b.test.ts": PASSING });
  for (const args of [["tests/a"], []]) {
    const { stdout, stderr, last_line, status } = runTests(directory, ...args);
    for (const name of ["exception in a timer", "rejection", "exception in a request", "inside", "test inside"])
      assert.match(stdout, new RegExp(`^ *✖ ${name} `, "m"));
    assert.match(stdout, /^ *✔ passes /m);
    assert.equal(stdout.match(/^after /gm)?.length, 1);
    assert.equal(last_line, args.length > 0 ? "1 passed, 5 failed, 0 skipped" : "2 passed, 5 failed, 1 skipped", stderr);
    assert.equal(status, 1);
  }
});

const FAILING_ONCE = `
  import { existsSync, writeFileSync } from "node:fs"; import { test } from "node:test";
  test("passes", () => {});
  test("fails once", () => { const ran = existsSync("ran"); writeFileSync("ran", ""); if (!ran) throw new Error("as planned"); });`;

test("npm test in CI repeats a single failed file, and reports it as unstable if it passes", { timeout: TIMEOUT_MS }, async (t) => {
  const directory = await repositoryWith(t, { "tests/a.test.ts": PASSING, "tests/once.test.ts": FAILING_ONCE });
  const unstable = runTestsWith({ CI: "1" }, directory);
  assert.match(unstable.stdout, /as planned[\s\S]*^roamfleet: UNSTABLE, failed and then passed: tests\/once\.test\.ts$/m);
  assert.equal(unstable.last_line, "3 passed, 0 failed, 1 skipped");
  assert.equal(unstable.status, 0);

  await rm(path.join(directory, "ran"));
  const elsewhere = runTests(directory);
  assert.equal(elsewhere.last_line, "2 passed, 1 failed, 1 skipped");
  assert.equal(elsewhere.status, 1);
});

test("npm test in CI fails if a file fails twice or crashes, or if several files fail", { timeout: TIMEOUT_MS }, async (t) => {
  const twice = await repositoryWith(t, { "tests/a.test.ts": PASSING, "tests/b.test.ts": FAILING });
  const failed = runTestsWith({ CI: "1" }, twice);
  assert.equal(failed.last_line, "1 passed, 1 failed, 1 skipped");
  assert.equal(failed.status, 1);

  const crashing = await repositoryWith(t, { "tests/once.test.ts": FAILING_ONCE, "tests/crash.test.ts": `throw new Error("at import");` });
  assert.doesNotMatch(runTestsWith({ CI: "1" }, crashing).stdout, /run once more/);

  const two = await repositoryWith(t, { "tests/a.test.ts": FAILING, "tests/once.test.ts": FAILING_ONCE });
  const broken = runTestsWith({ CI: "1" }, two);
  assert.doesNotMatch(broken.stdout, /run once more/);
  assert.equal(broken.last_line, "1 passed, 2 failed, 0 skipped");
});

// Left behind by a killed test process: a program, a daemon in a separate session, and a child with another environment.
const STARTING = `
  import { spawn } from "node:child_process"; import { writeFileSync } from "node:fs"; import { test } from "node:test";
  test("hangs", async () => {
    const start = (words, options) => spawn("sh", ["-c", words], { stdio: "ignore", ...options }).pid;
    const pids = [process.pid, start("exec sleep 600"), start("exec sleep 600", { detached: true }), start("env -i sleep 600 & wait")];
    writeFileSync("pids", JSON.stringify(pids));
    await new Promise(() => setInterval(() => {}, 1000));
  });`;

for (const [signal, which] of [
  ["SIGINT", "launcher"],
  ["SIGTERM", "launcher"],
  ["SIGKILL", "runner"],
] as const) {
  test(`${signal} to the ${which} of npm test ends all processes that the tests have started`, { timeout: TIMEOUT_MS }, async (t) => {
    const directory = await repositoryWith(t, { "tests/hangs.test.ts": STARTING });
    const child = spawn(process.execPath, ["tools/run.mjs", "tools/test.ts"], { cwd: directory, env, stdio: "ignore" });
    const ended = new Promise<void>((resolve) => child.on("exit", () => resolve()));
    const read = async (): Promise<number[]> => JSON.parse(await readFile(path.join(directory, "pids"), "utf8"));
    const pids = await until("the test to run", read, { despite_errors: true });
    child.kill(signal);
    await ended;
    assert.notEqual(child.exitCode, 0);
    await until("all of them to be gone", () => !pids.some(isAlive), { detail: () => pids.filter(isAlive).join(" ") });
  });
}

test("npm test ends and names the processes that a test has left behind", { timeout: TIMEOUT_MS }, async (t) => {
  const leaving = `
    import { spawn } from "node:child_process"; import { test } from "node:test";
    test("leaves a process", () => spawn("sleep", ["600"], { detached: true, stdio: "ignore" }).unref());`;
  const directory = await repositoryWith(t, { "tests/leaves.test.ts": leaving });
  const { stderr, status } = runTests(directory);
  assert.equal(status, 0);
  const [, pid] = /ended processes that the tests left behind: sleep \((\d+)\)$/m.exec(stderr) ?? [];
  assert.ok(pid !== undefined && !isAlive(Number(pid)), stderr);
});

test("npm test ends processes with its output that a test file has left behind, and names the file", { timeout: TIMEOUT_MS }, async (t) => {
  const leaving = `
    import { spawn } from "node:child_process"; import { test } from "node:test";
    test("leaves a process", () => spawn("sleep", ["600"], { detached: true, stdio: "inherit" }).unref());`;
  const directory = await repositoryWith(t, { "tests/leaves.test.ts": leaving, "tests/a.test.ts": PASSING });
  const { stdout, status } = runTests(directory);
  assert.match(stdout, /ended a process that tests\/leaves\.test\.ts left behind: sleep 600/);
  assert.equal(status, 0);
});

test("npm test kills a test process that a file blocks, and names the file", { timeout: TIMEOUT_MS }, async (t) => {
  const blocking = `import { test } from "node:test"; test("never ends", () => { for (;;); });`;
  const directory = await repositoryWith(t, { "tests/blocks.test.ts": blocking, "tests/a.test.ts": PASSING });
  const { stderr, status } = runTestsWith({ ROAMFLEET_TEST_FILE_MS: "3000" }, directory);
  assert.match(stderr, /did not end: .*tests\/blocks\.test\.ts/);
  assert.equal(status, 1);
});

for (const [kind, comment] of [
  ["shared", ""],
  ["separate", "// Separate process: it does not exit.\n"],
] as const) {
  test(`npm test kills a ${kind} process that does not exit, and runs its files once more in CI`, { timeout: TIMEOUT_MS }, async (t) => {
    const staying = `${comment}
      import { existsSync, writeFileSync } from "node:fs"; import { test } from "node:test";
      test("passes", () => {});
      if (!existsSync("stayed")) process.on("exit", () => { writeFileSync("stayed", ""); for (;;); });`;
    const directory = await repositoryWith(t, { "tests/stays.test.ts": staying, "tests/a.test.ts": PASSING });
    const run = (more: Record<string, string>): ReturnType<typeof runTests> =>
      runTestsWith({ ROAMFLEET_TEST_END_MS: "1000", ...more }, directory);
    const again = run({ CI: "1" });
    assert.match(again.stderr, /a test process did not exit after .*tests\/stays\.test\.ts.*; its threads: .* in /);
    assert.match(again.stdout, /UNSTABLE, failed and then passed: .*tests\/stays\.test\.ts/);
    assert.deepEqual([again.last_line, again.status], ["2 passed, 0 failed, 1 skipped", 0]);
    await rm(path.join(directory, "stayed"));
    const once = run({ CI: "" });
    assert.deepEqual([once.last_line, once.status], ["2 passed, 1 failed, 1 skipped", 1]);
  });
}

test("npm test ends normally even if the process guard was killed", { timeout: TIMEOUT_MS }, () => {
  const script = `
    import { readFileSync } from "node:fs"; import { setTimeout } from "node:timers/promises";
    import { startGuard } from ${JSON.stringify(path.join(root, "tools", "process-guard.ts"))};
    const guard = startGuard();
    process.kill(Number(readFileSync("/proc/self/task/" + process.pid + "/children", "utf8")), "SIGKILL");
    await setTimeout(500);
    await guard.end();
    console.log("ended");`;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
    env,
    timeout: TIMEOUT_MS,
  });
  assert.equal(stdout, "ended\n", stderr);
});

test("reads the first word of each line in the package list, except for comments", () => {
  assert.deepEqual(parseList("# why\ncurl  the API\n\ntmux # terminal\n"), ["curl", "tmux"]);
});

/** A zombie has ended, even if no process reaps it. */
function isAlive(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
