import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { lockState, StateLockedError } from "./lock.ts";

const HOLD = `
  import { lockState } from ${JSON.stringify(join(import.meta.dirname, "lock.ts"))};
  lockState(process.argv[1]);
  process.stdout.write("held");
  setInterval(() => {}, 1000);`;

test("another process can lock a state directory only after the lock's owner has died", { timeout: 120_000 }, async (t) => {
  const directory = temporaryDirectory(t);
  const child = spawn(process.execPath, ["--input-type=module", "--eval", HOLD, directory], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  await once(child.stdout, "data");
  assert.throws(
    () => lockState(directory),
    (error) => error instanceof StateLockedError && error.message.includes(String(child.pid)),
  );
  child.kill("SIGKILL");
  await ended;
  const unlock = lockState(directory);
  unlock();
  assert.deepEqual(readdirSync(directory), []);
});

test("takes over a lock file that is truncated, from another boot, or names a reused pid", (t) => {
  const directory = temporaryDirectory(t);
  const path = join(directory, "agent.lock");
  for (const content of [
    "",
    "{",
    JSON.stringify({ pid: process.pid, started: "1", boot_id: "x" }),
    JSON.stringify({ pid: 1, started: "0", boot_id: "another" }),
  ]) {
    writeFileSync(path, content);
    lockState(directory)();
    assert.equal(existsSync(path), false);
  }
});

test("a process cannot lock the same directory twice without releasing it", (t) => {
  const directory = temporaryDirectory(t);
  const unlock = lockState(directory);
  assert.throws(() => lockState(directory), StateLockedError);
  unlock();
  unlock();
  lockState(directory)();
});

test("a new directory can be locked while an agent still holds the lock of a deleted directory", (t) => {
  const directory = temporaryDirectory(t);
  const unlock = lockState(directory);
  rmSync(directory, { recursive: true });
  // The file system may give the inode number of the deleted directory to a new one, but not necessarily to the first.
  const others = Array.from({ length: 20 }, () => temporaryDirectory(t));
  for (const other of others) lockState(other)();
  unlock();
});

const ROOT = process.getuid?.() === 0 ? {} : { skip: "only root mounts a small disk" };

test("locks a directory on a full disk against other agents until the owner dies", { timeout: 120_000, ...ROOT }, async (t) => {
  const directory = join(temporaryDirectory(t), "disk");
  mkdirSync(directory);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "none", directory]);
  assert.throws(() => writeFileSync(join(directory, "ballast"), Buffer.alloc(1_000_000)), /ENOSPC/);
  const child = spawn(process.execPath, ["--input-type=module", "--eval", HOLD, directory], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const ended = once(child, "exit");
    await once(child.stdout, "data");
    assert.deepEqual(readdirSync(directory), ["ballast"]);
    assert.throws(() => lockState(directory), StateLockedError);
    child.kill("SIGKILL");
    await ended;
    lockState(directory)();
  } finally {
    child.kill("SIGKILL");
    execFileSync("umount", ["-l", directory]);
  }
});

test("locks a directory with only the lock file if the lock socket cannot be bound", { timeout: 120_000 }, (t) => {
  const directory = temporaryDirectory(t);
  // Too long for the address of a socket.
  const name = "x".repeat(120);
  const unlock = lockState(directory, name);
  assert.deepEqual(readdirSync(directory), [name]);
  unlock();
});

test("another user who binds the lock socket's name cannot block root's agent", { timeout: 120_000, ...ROOT }, async (t) => {
  const directory = temporaryDirectory(t);
  const { dev, ino } = statSync(directory);
  const bind = `
    process.setgid(65534), process.setuid(65534);
    require("node:net").createServer().listen({ path: "\\0roamfleet/${dev}/${ino}/agent.lock" }, () => process.stdout.write("bound"));`;
  const child = spawn(process.execPath, ["--eval", bind], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "close");
  t.after(async () => {
    child.kill("SIGKILL");
    // The directory of the next test may get the same inode, and so the same socket name.
    await ended;
  });
  await once(child.stdout, "data");
  lockState(directory)();
  // The directory now belongs to that user, who may run an agent on it.
  chownSync(directory, 65534, 65534);
  assert.throws(() => lockState(directory), StateLockedError);
});

test("two paths to the same directory share one lock", (t) => {
  const parent = temporaryDirectory(t);
  mkdirSync(join(parent, "state"));
  symlinkSync(join(parent, "state"), join(parent, "other"));
  const unlock = lockState(join(parent, "state"));
  assert.throws(() => lockState(join(parent, "other")), StateLockedError);
  unlock();
  lockState(join(parent, "other"))();
});
