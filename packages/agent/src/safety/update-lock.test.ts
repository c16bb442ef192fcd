import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import {
  LOCK_FILE,
  LOCK_UNREADABLE_SECONDS,
  LockHeld,
  type LockState,
  type Machine,
  NoSuchProcess,
  thisMachine,
  UpdateLock,
} from "./update-lock.ts";

const LIMIT = { timeout: 120_000 };

function lockOf(t: TestContext, at = "2030-01-01T00:00:00Z") {
  const directory = temporaryDirectory(t);
  const clock = new SimulatedClock({ at });
  const machine: Machine & { boot_id: string } = { boot_id: "this boot", uptime_ms: () => 1_000_000 + clock.monotonic() };
  const open = (): UpdateLock => new UpdateLock({ state_directory: directory, clock, machine });
  return { directory, file: join(directory, LOCK_FILE), clock, machine, open, lock: open() };
}

const fell = (state: LockState): string | undefined => ("expired" in state ? state.expired.reason : undefined);

test("refuses the update lock to a second owner until the first owner releases it", LIMIT, (t) => {
  const { lock, open, directory } = lockOf(t);
  lock.take({ owner: "docking", ttl_seconds: 60 });
  const other = open();
  assert.throws(
    () => other.take({ owner: "mission", ttl_seconds: 60 }),
    (error) => error instanceof LockHeld && error.held.owner === "docking" && error.held.expires_in_seconds === 60,
  );
  assert.throws(() => other.release("mission"), LockHeld);
  assert.equal(lock.release("docking"), "docking");
  assert.equal(lock.release("docking"), undefined);
  other.take({ owner: "mission", ttl_seconds: 60 });
  assert.equal(other.release(undefined), "mission", "by force, any owner's");
  assert.deepEqual(readdirSync(directory), []);
});

test("the update lock expires one TTL after its last renewal", LIMIT, async (t) => {
  const { lock, clock } = lockOf(t);
  lock.take({ owner: "docking", ttl_seconds: 60 });
  await clock.advance({ seconds: 59 });
  assert.equal(lock.held?.expires_in_seconds, 1);
  lock.take({ owner: "docking", ttl_seconds: 60 });
  await clock.advance({ seconds: 59 });
  assert.equal(lock.held?.owner, "docking");
  await clock.advance({ seconds: 1 });
  assert.equal(fell(lock.look()), "expired");
  assert.deepEqual(lock.sweep(), { owner: "docking", reason: "expired" });
  assert.equal(lock.sweep(), undefined);
});

test("the update lock expires by uptime, so a wrong clock does not change its duration", LIMIT, async (t) => {
  const { directory, clock, machine, lock } = lockOf(t, "1970-01-01T00:00:00Z");
  lock.take({ owner: "docking", ttl_seconds: 60 });
  const years_later = new SimulatedClock({ at: "2055-01-01T00:00:00Z" });
  const same = new UpdateLock({ state_directory: directory, clock: years_later, machine });
  assert.equal(same.held?.owner, "docking");
  await clock.advance({ seconds: 60 });
  assert.equal(fell(same.look()), "expired");
});

test("an update lock with a future start time expires after its TTL", LIMIT, async (t) => {
  const { lock, clock, file } = lockOf(t);
  lock.take({ owner: "docking", ttl_seconds: 60 });
  const said = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
  writeFileSync(file, JSON.stringify({ ...said, taken_uptime_ms: 1e15 }));
  utimesSync(file, clock.now(), clock.now());
  assert.equal(lock.held?.expires_in_seconds, 60);
  await clock.advance({ seconds: 60 });
  assert.equal(fell(lock.look()), "expired");
});

test("the update lock expires at a reboot", LIMIT, (t) => {
  const { lock, machine, open } = lockOf(t);
  lock.take({ owner: "docking", ttl_seconds: 86_400 });
  machine.boot_id = "the next boot";
  assert.equal(fell(open().look()), "rebooted");
  assert.equal(open().take({ owner: "mission", ttl_seconds: 1 }).owner, "mission");
});

test("the update lock expires when its owner's process ends, even if the pid is reused", LIMIT, async (t) => {
  const { lock, file } = lockOf(t);
  const owner = spawn("sleep", ["60"]);
  const ended = once(owner, "exit");
  t.after(() => owner.kill("SIGKILL"));
  lock.take({ owner: "docking", ttl_seconds: 600, pid: owner.pid! });
  assert.equal(lock.held?.pid, owner.pid);
  assert.equal(lock.take({ owner: "docking", ttl_seconds: 600 }).pid, owner.pid, "a renewal without a process keeps the first");
  owner.kill("SIGKILL");
  await ended;
  assert.equal(fell(lock.look()), "owner_gone");
  assert.throws(() => lock.take({ owner: "docking", ttl_seconds: 600, pid: owner.pid! }), NoSuchProcess);
  lock.take({ owner: "docking", ttl_seconds: 600, pid: process.pid });
  const content = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
  writeFileSync(file, JSON.stringify({ ...content, crc32: undefined, pid_start_time: Number(content["pid_start_time"]) - 1 }));
  assert.equal(fell(lock.look()), "owner_gone");
});

test("a lock file of another program expires after its TTL, an unreadable file after a default time", LIMIT, async (t) => {
  const { lock, file, clock, open } = lockOf(t, new Date().toISOString());
  for (const [content, owner, seconds] of [
    ['{"owner":"script","ttl_seconds":100}', "script", 100],
    ["not json", "an unreadable lock file", LOCK_UNREADABLE_SECONDS],
    ['{"owner":7}', "an unreadable lock file", LOCK_UNREADABLE_SECONDS],
    ['{"owner":"script","ttl_seconds":1e300}', "an unreadable lock file", LOCK_UNREADABLE_SECONDS],
  ] as const) {
    writeFileSync(file, content);
    // The modification time is in the future, as after the robot's clock was set back.
    utimesSync(file, clock.now(), new Date(clock.now().getTime() + 86_400_000));
    assert.equal(lock.held?.owner, owner);
    await clock.advance({ seconds: seconds - 1 });
    assert.equal(lock.held?.owner, owner);
    await clock.advance({ seconds: 1 });
    assert.equal(fell(lock.look()), "expired");
    // The modification time is a full TTL ago when the file is seen for the first time.
    utimesSync(file, clock.now(), new Date(clock.now().getTime() - seconds * 1_000));
    assert.equal(fell(open().look()), "expired");
  }
});

const TAKE = `
  import { systemClock } from ${JSON.stringify(import.meta.resolve("@roamfleet/clock"))};
  import { armFailpoints } from ${JSON.stringify(import.meta.resolve("@roamfleet/clock/failpoint"))};
  import { thisMachine } from ${JSON.stringify(join(import.meta.dirname, "update-lock.ts"))};
  import { UpdateLock } from ${JSON.stringify(join(import.meta.dirname, "update-lock.ts"))};
  const [directory, spec, log_file, what] = process.argv.slice(1);
  armFailpoints({ spec, log_file });
  const lock = new UpdateLock({ state_directory: directory, clock: systemClock, machine: thisMachine("/") });
  if (what === "take") lock.take({ owner: "docking", ttl_seconds: 600 });
  else lock.release("docking");`;

async function runKilled(directory: string, spec: string, log: string, what: string): Promise<NodeJS.Signals | number | null> {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", TAKE, directory, spec, log, what], { stdio: "inherit" });
  const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
  return signal ?? code;
}

for (const what of ["take", "release"] as const) {
  test(`a process killed at any point of a ${what} does not block the update lock`, { timeout: 120_000 }, async (t) => {
    const base = temporaryDirectory(t);
    const machine = thisMachine("/");
    const prepare = (name: string): UpdateLock => {
      const directory = join(base, name);
      mkdirSync(directory);
      const lock = new UpdateLock({ state_directory: directory, clock: systemClock, machine });
      if (what === "release") lock.take({ owner: "docking", ttl_seconds: 600 });
      return lock;
    };
    prepare("listed");
    const listed = join(base, "listed.log");
    assert.equal(await runKilled(join(base, "listed"), "list", listed, what), 0);
    const points = readFileSync(listed, "utf8")
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { point: string }).point);
    assert.ok(points.length >= 4, points.join(" "));
    let [before, after] = [0, 0];
    for (const [index, point] of points.entries()) {
      const lock = prepare(`at-${index}`);
      const directory = join(base, `at-${index}`);
      assert.equal(await runKilled(directory, point, join(base, "kills.log"), what), "SIGKILL", point);
      const held = lock.held?.owner;
      assert.ok(held === undefined || held === "docking", point);
      if ((held === undefined) === (what === "take")) before += 1;
      else after += 1;
      // The guard and the temporary files of the dead process do not block the next process.
      if (held !== undefined) lock.release("docking");
      lock.take({ owner: "mission", ttl_seconds: 5 });
      assert.equal(lock.release("mission"), "mission");
      assert.equal(existsSync(join(directory, LOCK_FILE)), false);
    }
    assert.ok(before > 0 && after > 0, `${before} left it unchanged, ${after} updated`);
  });
}

test("of several processes that take the update lock concurrently, only one gets it", LIMIT, async (t) => {
  const directory = temporaryDirectory(t);
  const script = TAKE.replace('owner: "docking"', "owner: String(process.pid)");
  const children = Array.from({ length: 4 }, () =>
    spawn(process.execPath, ["--input-type=module", "--eval", script, directory, "list", join(directory, "points.log"), "take"], {
      stdio: "ignore",
    }),
  );
  const codes = await Promise.all(children.map(async (child) => ((await once(child, "exit")) as [number])[0]));
  assert.equal(codes.filter((code) => code === 0).length, 1, codes.join(" "));
  const lock = new UpdateLock({ state_directory: directory, clock: systemClock, machine: thisMachine("/") });
  await until("the lock", () => lock.held !== undefined);
  assert.equal(children[codes.indexOf(0)]?.pid, Number(lock.held?.owner));
});
