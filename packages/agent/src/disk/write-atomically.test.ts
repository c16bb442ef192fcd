import assert from "node:assert/strict";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { copyAtomically, makeDirectory, readJson, removeDurably, renameDurably, writeAtomically, writeJson } from "./write-atomically.ts";

const SOURCES = path.resolve(import.meta.dirname, "..");
const WRITES =
  /\b(renameSync|writeFileSync|appendFileSync|copyFileSync|symlinkSync|linkSync|mkdirSync|createWriteStream|cpSync|\.rename|\.writeFile|\.copyFile|\.mkdir)\(/;

/** Modules that may write or rename files, and why their files survive a power loss. */
const ELSEWHERE: Record<string, string> = {
  "disk/write-atomically.ts": "the one place",
  "disk/lock.ts": "a lock is valid for one boot",
  "deployments/journal.ts": "appends and fsyncs; its reserve contains no data",
  "runtime/file.ts": "streams a file of any size: fsynced before it is renamed durably; staging is fsynced and renamed as a whole",
  "runtime/hosts/output-directory.ts": "after a power cut there is no process any more, so its output's directory may be lost",
  "runtime/hosts/process-record.ts": "after a power cut there is no process any more",
  "runtime/spawn-child.ts": "writes to /proc",
  "runtime/unpack.ts": "fsyncs the whole tree before the version gets its name",
  "self-update/launched.ts": "a report in /run is valid for one boot",
  "spool/log-entries.ts": "both names of a segment are read",
  "spool/log-spool.ts": "both names of a segment are read",
};

function directoryOf(t: TestContext): string {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-durable-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

test("only listed modules of the agent write or rename files", () => {
  const found = globSync("**/*.ts", { cwd: SOURCES })
    .filter((file) => !file.endsWith(".test.ts") && !file.startsWith("testing/"))
    .filter((file) => WRITES.test(readFileSync(path.join(SOURCES, file), "utf8")))
    .toSorted();
  assert.deepEqual(found, Object.keys(ELSEWHERE).toSorted());
});

test("writes a file atomically with its mode despite a temporary file left by a crash", (t) => {
  const directory = directoryOf(t);
  const file = path.join(directory, "kept");
  const elsewhere = path.join(directory, "elsewhere");
  writeFileSync(elsewhere, "not ours");
  // A temporary name that is a symlink is not followed.
  symlinkSync(elsewhere, `${file}.tmp`);
  const umask = process.umask(0o077);
  try {
    writeAtomically(file, "one", 0o644);
  } finally {
    process.umask(umask);
  }
  assert.equal(readFileSync(file, "utf8"), "one");
  assert.equal(statSync(file).mode & 0o777, 0o644);
  assert.equal(readFileSync(elsewhere, "utf8"), "not ours");
  assert.equal(existsSync(`${file}.tmp`), false);
  assert.throws(() => writeAtomically(path.join(directory, "none", "kept"), "two"));
});

test("copies a file's bytes and mode, and keeps the old file if the source is missing", (t) => {
  const directory = directoryOf(t);
  const [from, to] = [path.join(directory, "from"), path.join(directory, "to")];
  writeFileSync(from, "bytes", { mode: 0o640 });
  writeFileSync(to, "old");
  assert.throws(() => copyAtomically(path.join(directory, "none"), to));
  assert.equal(readFileSync(to, "utf8"), "old");
  assert.equal(existsSync(`${to}.tmp`), false);
  copyAtomically(from, to);
  assert.equal(readFileSync(to, "utf8"), "bytes");
  assert.equal(statSync(to).mode & 0o777, 0o640);
});

test("creating a directory twice or removing a file twice succeeds", (t) => {
  const directory = directoryOf(t);
  const deep = path.join(directory, "a", "b", "c");
  makeDirectory(deep);
  makeDirectory(deep);
  makeDirectory(`${path.join(directory, "d")}${path.sep}`, 0o755);
  assert.equal(statSync(deep).mode & 0o777, 0o700);
  assert.equal(statSync(path.join(directory, "d")).mode & 0o777, 0o755);
  writeFileSync(path.join(deep, "one"), "1");
  renameDurably(path.join(deep, "one"), path.join(directory, "two"));
  assert.equal(existsSync(path.join(deep, "one")), false);
  removeDurably(path.join(directory, "two"));
  removeDurably(path.join(directory, "two"));
  assert.equal(existsSync(path.join(directory, "two")), false);
});

test("detects a flipped bit in a JSON state file", (t) => {
  const file = path.join(directoryOf(t), "state.json");
  const value = { files: ["/opt/maps/a.bin"], originals: {} };
  writeJson(file, value);
  assert.deepEqual(readJson(file), value);
  const bytes = readFileSync(file);
  const inside = bytes.indexOf("maps");
  for (let bit = 0; bit < 8; bit += 1) {
    const changed = Buffer.from(bytes);
    changed[inside]! ^= 1 << bit;
    writeFileSync(file, changed);
    let damaged = 0;
    assert.equal(
      readJson(file, () => (damaged += 1)),
      undefined,
    );
    assert.equal(damaged, 1);
  }
});
