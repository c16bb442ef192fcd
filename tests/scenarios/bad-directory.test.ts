import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { oneNodeOnly } from "../harness/nodes.ts";
import { Program } from "../processes/process.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { SmallDisk } from "../processes/small-disk.ts";

const LIMIT = { timeout: 300_000, skip: oneNodeOnly("the directory of one server") };

function temporary(t: TestContext): string {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-bad-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Asserts that `serve` exits with 2 and a one-line message, and that `doctor` reports the same problem. */
async function refused(data: string, expected: RegExp): Promise<void> {
  const serve = new Program("packages/server/src/main.ts", ["serve", "--data", data, "--listen", "127.0.0.1:0"]);
  const { code } = await serve.ended;
  const lines = serve.output.split("\n").filter((line) => line !== "" && !line.startsWith("{"));
  assert.match(lines[0] ?? "", expected);
  assert.deepEqual(
    [code, lines.length, lines[1]],
    [2, 2, "roamfleet: for details, run roamfleet doctor with the same flags and environment"],
    serve.output,
  );
  const doctor = new Program("packages/server/src/main.ts", ["doctor", "--json", "--data", data, "--listen", "127.0.0.1:0"]);
  assert.equal((await doctor.ended).code, 1, doctor.output);
  const { findings } = JSON.parse(doctor.output) as { findings: { status: string; seen: string; hint?: string }[] };
  const problems = findings.filter(({ status }) => status === "problem").map(({ seen, hint }) => `roamfleet: ${seen}: ${hint}`);
  assert.ok(problems.includes(lines[0] ?? ""), `${lines[0]} is one of ${problems.join(" | ")}`);
}

test("serve refuses an unsuitable data directory with a one-line message, and doctor reports the same", LIMIT, async (t) => {
  const directory = temporary(t);
  const file = path.join(directory, "file");
  writeFileSync(file, "");
  await refused(file, /file is not a directory: choose another directory with --data$/);
  await refused(path.join(directory, "missing", "data"), /missing does not exist: create it \(mkdir -p .*missing\) or correct --data$/);
  const open = path.join(directory, "open");
  mkdirSync(open);
  chmodSync(open, 0o777);
  await refused(open, /open can be written by every user of this machine: chmod o-w /);
  const photos = path.join(directory, "photos");
  mkdirSync(photos);
  writeFileSync(path.join(photos, "robot.jpg"), "");
  await refused(photos, /photos contains files that do not belong to Roamfleet: choose a new or empty directory with --data$/);
});

test("serve refuses a disk that is read-only, too small or full with a one-line message", LIMIT, async (t) => {
  using disk = SmallDisk.mount(20);
  if (disk === undefined) return t.skip("needs root to mount a small tmpfs");
  await refused(
    path.join(disk.directory, "data"),
    /the disk of .* has (19|20) MiB free, and a new database needs 128 MiB to start: free disk space/,
  );
  assert.equal(spawnSync("mount", ["-o", "remount,ro", disk.directory]).status, 0);
  await refused(path.join(disk.directory, "data"), /cannot be created in .* \(EROFS\): mount its file system writable/);
  await refused(disk.directory, /cannot be written \(EROFS\): mount its file system writable/);
});

test("serve refuses a database that is damaged, insecure or of a later version with a one-line message", LIMIT, async () => {
  await using server = await ServerProcess.start({ nodes: 1 });
  assert.equal(await server.program.stop(), 0);
  const { data } = server;
  const database = path.join(data, "postgres");
  chmodSync(database, 0o777);
  await refused(data, /postgres is open to other users \(mode 777\): chmod 700 /);
  chmodSync(database, 0o700);

  const control = path.join(database, "global", "pg_control");
  const whole = readFileSync(control);
  const damaged = Buffer.from(whole);
  damaged[100]! ^= 1;
  writeFileSync(control, damaged);
  await refused(data, /the database in .* is damaged \(global\/pg_control\): restore a backup into a new directory/);
  writeFileSync(control, whole);

  const record_file = path.join(data, "postgres.schema");
  const record = readFileSync(record_file, "utf8");
  const { version, migrations } = JSON.parse(record) as { version: string; migrations: string[] };
  assert.ok(migrations.includes("0001_initial"), record);
  writeFileSync(record_file, JSON.stringify({ version: "9.0.0", migrations: [...migrations, "9998_expand_a", "9999_expand_b"] }));
  await refused(
    data,
    /belongs to a newer version of Roamfleet \(9\.0\.0\): it has the migrations 9998_expand_a, 9999_expand_b: start the newer version/,
  );
  writeFileSync(record_file, record);

  const doctor = new Program("packages/server/src/main.ts", ["doctor", "--json", "--data", data, "--listen", "127.0.0.1:0"]);
  await doctor.ended;
  assert.match(
    doctor.output,
    new RegExp(`the embedded database was last started by version ${version}, with migration ${migrations.at(-1)}`),
  );
  await server.restart();
});
