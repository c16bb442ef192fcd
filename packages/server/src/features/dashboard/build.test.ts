// Separate process: a test uses up the file descriptors of the process.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { createLog } from "../../kernel/log.ts";
import { digestSources, ensureBuilt, NotBuilt } from "./build.ts";
import { openDashboard, readSite } from "./site.ts";

const TIMEOUT = { timeout: 120_000 };
const UNPRIVILEGED_UID = 65_534;
const DESCRIPTORS = 256;
/** Source of a program that replaces the bundler. It copies the dashboard's source, and appends one line for each build to built.txt. */
const PROGRAM = `
import { appendFileSync, cpSync, readFileSync, writeFileSync } from "node:fs";
const [directory] = process.argv.slice(2);
appendFileSync(new URL("./built.txt", import.meta.url), Object.keys(process.env).sort().join(" ") + "\\n");
const text = readFileSync(new URL("./src/main.tsx", import.meta.url), "utf8");
if (text.includes("broken")) { console.error("main.tsx:1: unexpected word"); process.exit(1); }
writeFileSync(directory + "/index.html", "<p nonce=__CSP_NONCE__>" + text);
writeFileSync(directory + "/icon.svg", "<svg/>");
`;

interface Clone {
  directory: string;
  lines: string[];
  build(): Promise<string>;
  /** Overwrites the only source file. */
  write(text: string): Promise<void>;
  /** Returns one line for each build: the names of its environment variables. */
  built(): Promise<string[]>;
}

async function makeClone(t: TestContext): Promise<Clone> {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-clone-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const dashboard = path.join(directory, "packages/dashboard");
  await mkdir(path.join(dashboard, "src"), { recursive: true });
  await writeFile(path.join(dashboard, "package.json"), '{ "type": "module" }');
  await writeFile(path.join(dashboard, "build.ts"), PROGRAM);
  await writeFile(path.join(dashboard, "src/main.tsx"), "first");
  const lines: string[] = [];
  const log = createLog({ level: "info", fold: false, stream: { write: (line: string) => void lines.push(line) } });
  return {
    directory,
    lines,
    build: () => ensureBuilt({ clone: directory, clock: systemClock, log }),
    write: (text) => writeFile(path.join(dashboard, "src/main.tsx"), text),
    built: async () =>
      (await readFile(path.join(dashboard, "built.txt"), "utf8").catch(() => "")).split("\n").filter((line) => line !== ""),
  };
}

test("rebuilds the dashboard only when the content of a source changes, whatever its modification time", TIMEOUT, async (t) => {
  const clone = await makeClone(t);
  const first = await clone.build();
  assert.equal(await clone.build(), first);
  assert.equal((await clone.built()).length, 1);
  await clone.write("second");
  await utimes(path.join(clone.directory, "packages/dashboard/src/main.tsx"), 0, 0);
  const second = await clone.build();
  assert.notEqual(second, first);
  const { page, files } = await readSite(second);
  assert.deepEqual([page, [...files.keys()]], [["<p nonce=", ">second"], ["/icon.svg"]]);
  await clone.write("first");
  assert.equal(await clone.build(), first, "the previous build is reused");
  assert.equal((await clone.built()).length, 2);
});

test("the build digest covers the lockfile and other packages, but no tests", TIMEOUT, async (t) => {
  const { directory } = await makeClone(t);
  const digest = await digestSources(directory);
  await writeFile(path.join(directory, "packages/dashboard/src/main.test.ts"), "x");
  assert.equal(await digestSources(directory), digest);
  await writeFile(path.join(directory, "package-lock.json"), "{}");
  const locked = await digestSources(directory);
  assert.notEqual(locked, digest);
  await mkdir(path.join(directory, "packages/sdk/src"), { recursive: true });
  await writeFile(path.join(directory, "packages/sdk/src/browser.ts"), "");
  assert.notEqual(await digestSources(directory), locked);
});

test("servers that start concurrently all read a complete dashboard build", TIMEOUT, async (t) => {
  const clone = await makeClone(t);
  const built = await Promise.all(Array.from({ length: 5 }, () => clone.build().then(readSite)));
  for (const { page, files } of built) assert.deepEqual([page.length, files.size], [2, 1]);
  assert.equal((await readdir(path.join(clone.directory, "packages/dashboard/dist"))).length, 1);
});

test("the bundler gets none of the server's environment variables", TIMEOUT, async (t) => {
  const clone = await makeClone(t);
  await clone.build();
  assert.deepEqual(await clone.built(), ["NODE_ENV NO_COLOR"]);
});

test("reports a failed dashboard build to log and browsers, and retries at the next start", TIMEOUT, async (t) => {
  const clone = await makeClone(t);
  await clone.write("broken");
  await assert.rejects(clone.build(), NotBuilt);
  assert.match(clone.lines.join(""), /main\.tsx:1: unexpected word/);
  const log = createLog({ level: "silent" });
  const dashboard = await openDashboard({ clock: systemClock, log }, clone.directory);
  assert.match("problem" in dashboard ? dashboard.problem : "", /^The build of the dashboard failed\. .*npm run build/);
  assert.deepEqual(await readdir(path.join(clone.directory, "packages/dashboard/dist")), []);
  await clone.write("mended");
  assert.ok("site" in (await openDashboard({ clock: systemClock, log }, clone.directory)));
});

test("reports that the server's user may not write the dashboard build", TIMEOUT, async (t) => {
  const clone = await makeClone(t);
  await chmod(clone.directory, 0o755);
  await chmod(path.join(clone.directory, "packages/dashboard"), 0o555);
  // Root may write anywhere, so act as another user.
  const is_root = process.getuid?.() === 0;
  if (is_root) process.seteuid?.(UNPRIVILEGED_UID);
  try {
    await assert.rejects(clone.build(), /may not write to its directory/);
  } finally {
    if (is_root) process.seteuid?.(0);
    await chmod(path.join(clone.directory, "packages/dashboard"), 0o755);
  }
});

test("reports that the sources of the dashboard are not installed", TIMEOUT, async (t) => {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-clone-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const dashboard = await openDashboard({ clock: systemClock, log: createLog({ level: "silent" }) }, directory);
  assert.deepEqual(dashboard, { problem: "This installation does not contain the dashboard's sources." });
});

/** Opens all file descriptors that this process has left. */
function takeDescriptors(): number[] {
  const held: number[] = [];
  try {
    for (;;) held.push(openSync("/dev/null", "r"));
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, "EMFILE");
  }
  return held;
}

test("reports a dashboard build that fails for lack of file descriptors, and continues running", TIMEOUT, async (t) => {
  execFileSync("prlimit", [`--pid=${process.pid}`, `--nofile=${DESCRIPTORS}:`]);
  const clone = await makeClone(t);
  const [lines, held]: [string[], number[]] = [[], []];
  const write = (line: string): void => {
    lines.push(line);
    if (line.includes("building the dashboard")) held.push(...takeDescriptors());
  };
  const dashboard = await openDashboard(
    { clock: systemClock, log: createLog({ level: "info", fold: false, stream: { write } }) },
    clone.directory,
  );
  for (const descriptor of held) closeSync(descriptor);
  assert.ok(held.length > 0);
  assert.match("problem" in dashboard ? dashboard.problem : "", /^The build of the dashboard failed\./);
  assert.match(lines.join(""), /spawn .+ EMFILE.*the build of the dashboard failed/);
  assert.ok("site" in (await openDashboard({ clock: systemClock, log: createLog({ level: "silent" }) }, clone.directory)));
});
