import assert from "node:assert/strict";
import { appendFileSync, globSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { oneNodeOnly } from "../harness/nodes.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { runCommand } from "../processes/server-command.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 300_000, skip: oneNodeOnly("the backup of an embedded database") };
const OLD = ["2019-01-01T023000Z", "2019-01-02T023000Z", "2019-01-03T023000Z"];

let server: ServerProcess;
let place = "";

before(async () => {
  if (LIMIT.skip !== false) return;
  place = mkdtempSync(path.join(tmpdir(), "roamfleet-rotation-"));
  server = await ServerProcess.start();
  const { api } = await server.org("Kept");
  await pushBundle(api, "one", await appBundle());
}, LIMIT);

after(async () => {
  await server?.[Symbol.asyncDispose]();
  rmSync(place, { recursive: true, force: true });
}, LIMIT);

test("backup --keep creates a dated backup, then deletes only the oldest dated backups", LIMIT, async () => {
  const to = path.join(place, "dated");
  for (const name of [...OLD, "notes"]) mkdirSync(path.join(to, name), { recursive: true });
  writeFileSync(path.join(to, OLD[0] ?? "", "manifest.json"), "{}");
  const refused = await runCommand(["backup", "--data", path.join(place, "none"), "--to", to, "--keep", "1"]);
  assert.equal(refused.code, 2, refused.output);
  assert.deepEqual(readdirSync(to).toSorted(), [...OLD, "notes"], "a backup that fails removes nothing");
  const { code, output } = await runCommand(["backup", "--data", server.data, "--to", to, "--keep", "2"]);
  assert.equal(code, 0, output);
  const [kept, made = "", notes, ...more] = readdirSync(to).toSorted();
  assert.deepEqual([kept, notes, more], [OLD[2], "notes", []]);
  assert.match(made, /^\d{4}-\d\d-\d\dT\d{6}Z$/);
  assert.match(readFileSync(path.join(server.data, "last-backup"), "utf8"), /^\d{4}-\d\d-\d\dT[\d:.]+Z\n$/);
  const none = await runCommand(["backup", "--data", server.data, "--to", to, "--keep", "0"]);
  assert.equal(none.code, 2, none.output);
});

test("backup verify exits with 0 for a complete backup, 1 for a damaged one, and 2 otherwise", LIMIT, async () => {
  const to = path.join(place, "verified");
  assert.equal((await runCommand(["backup", "--data", server.data, "--to", to])).code, 0);
  const whole = await runCommand(["backup", "verify", to]);
  assert.deepEqual([whole.code, /is complete: \d+ files/.test(whole.output)], [0, true], whole.output);
  const none = await runCommand(["backup", "verify", place]);
  assert.deepEqual([none.code, /is not a complete backup/.test(none.output)], [2, true], none.output);
  const [artifact = ""] = globSync("data/blobs/blobs/*/*/*", { cwd: to });
  // The size stays the same: only the checksum differs.
  const bytes = readFileSync(path.join(to, artifact));
  bytes[0]! ^= 1;
  writeFileSync(path.join(to, artifact), bytes);
  unlinkSync(path.join(to, "postgres/database/PG_VERSION"));
  const spoiled = await runCommand(["backup", "verify", to]);
  assert.equal(spoiled.code, 1, spoiled.output);
  for (const name of [artifact, "postgres/database/PG_VERSION"]) assert.ok(spoiled.output.includes(name), spoiled.output);
  assert.match(spoiled.output, /2 of \d+ files/);
  appendFileSync(path.join(to, "postgres/manifest.json"), " ");
  const manifest = await runCommand(["backup", "verify", to]);
  assert.deepEqual([manifest.code, manifest.output.includes("postgres/manifest.json")], [1, true], manifest.output);
});
