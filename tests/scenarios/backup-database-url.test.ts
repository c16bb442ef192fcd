import assert from "node:assert/strict";
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { type Client, createClient } from "@roamfleet/sdk";
import { startEmbedded } from "../../packages/server/src/engines/db/embedded/index.ts";
import { createTestDatabase, silentLog, type TestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { oneNodeOnly } from "../harness/nodes.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { rowsOf, rowsOfAndStop } from "../processes/database-rows.ts";
import { type CommandResult, runCommand, ServingData } from "../processes/server-command.ts";
import { databaseUrl, ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 300_000, skip: oneNodeOnly("the backup of artifacts in the data directory") };

let first: TestDatabase;
let second: TestDatabase;
let server: ServerProcess;
let api: Client;
let token = "";
let place = "";

before(async () => {
  if (LIMIT.skip !== false) return;
  place = mkdtempSync(path.join(tmpdir(), "roamfleet-url-"));
  first = await createTestDatabase({ empty: true });
  second = await createTestDatabase({ empty: true });
  server = await ServerProcess.start({
    env: { DATABASE_URL: databaseUrl(first.connection) },
    args: ["--tls", "auto", "--limit", "token_requests_per_minute=1000000", "--limit", "token_burst=1000000"],
  });
  ({ api, token } = await server.org("Elsewhere"));
  await pushBundle(api, "one", await appBundle());
  const site_id = (await api.createSite({ body: { name: "Yard" }, idempotency_key: randomUUID() })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  await api.enrollRobot({ body: { key: key ?? "", public_key: randomBytes(32).toString("base64"), labels: { zone: "a" } } });
}, LIMIT);

after(async () => {
  await server?.[Symbol.asyncDispose]();
  for (const database of [first, second]) await database?.drop();
  rmSync(place, { recursive: true, force: true });
}, LIMIT);

const onDatabase = (database: TestDatabase, ...args: string[]): Promise<CommandResult> =>
  runCommand(args, { DATABASE_URL: databaseUrl(database.connection) });

test("a backup of an external database during writes is a consistent snapshot that can be restored", LIMIT, async () => {
  const made: string[] = [];
  let stopped = false;
  const writing = (async () => {
    while (!stopped) made.push((await api.createSite({ body: { name: `Site ${made.length}` }, idempotency_key: randomUUID() })).data.id);
  })();
  await until("some writes", () => made.length > 10);
  const before_it = made.length;
  const to = path.join(place, "beside");
  const backup = await onDatabase(first, "backup", "--data", server.data, "--to", to);
  const after_it = made.length;
  stopped = true;
  await writing;
  assert.equal(backup.code, 0, backup.output);
  assert.ok(after_it > before_it, "nothing was written during the backup");

  const data = path.join(place, "restored");
  const restored = await onDatabase(second, "restore", "--from", to, "--data", data);
  assert.equal(restored.code, 0, restored.output);
  const rows = await rowsOf(second.connection);
  const kept = made.map((id) => rows["public.site"]?.some((row) => row.includes(id)) ?? false);
  assert.deepEqual(
    kept.slice(0, before_it).filter((is) => !is),
    [],
    "acknowledged before the backup began",
  );
  assert.equal(kept.indexOf(false) === -1 || kept.lastIndexOf(true) < kept.indexOf(false), true, "a later write without an earlier one");
  // Each site's idempotency key is written in the transaction of the site.
  assert.equal(rows["public.idempotency"]?.length, rows["public.site"]?.length);
  assert.equal(readFileSync(path.join(data, "tls", "ca.pem"), "utf8"), server.ca);

  await using moved = new ServingData(data, { DATABASE_URL: databaseUrl(second.connection) }, ["--tls", "auto"]);
  const again = createClient({ base_url: await moved.url(), ca: server.ca, token });
  const { items } = await again.listReleases({});
  assert.deepEqual(
    items.map(({ tag, artifact_state }) => [tag, artifact_state]),
    [["one", "stored"]],
  );
  const robotsOf = async (label: string) => (await again.listRobots({ query: { label: [label] } })).items.map(({ id }) => id);
  const [robot_id = ""] = await robotsOf("zone:a");
  await again.updateRobot({ params: { id: robot_id }, body: { labels: { zone: "b" } } });
  assert.deepEqual([await robotsOf("zone:a"), await robotsOf("zone:b")], [[], [robot_id]]);
  const artifact = await again.request("GET", `/api/releases/${items[0]?.id}/artifact`);
  assert.equal(artifact.status, 200);
  assert.equal((await artifact.arrayBuffer()).byteLength, items[0]?.artifact_size);
});

test("a restore executes no SQL from a tampered backup of an external database", LIMIT, async () => {
  const to = path.join(place, "tampered");
  const made = await onDatabase(first, "backup", "--data", server.data, "--to", to);
  assert.equal(made.code, 0, made.output);
  const [rows_file, manifest_file] = [path.join(to, "tables", "rows.json"), path.join(to, "manifest.json")];
  const rows_text = readFileSync(rows_file, "utf8");
  const manifest = JSON.parse(readFileSync(manifest_file, "utf8")) as { database_manifest: { bytes: number; sha256: string } };
  const attacks: [what: string, text: string][] = [
    [
      "a bound",
      rows_text.replace(/"FOR VALUES FROM \([^"]*"/, `"FOR VALUES FROM (set_config('app.org', pg_ls_dir('/tmp')::text, false)) TO (1)"`),
    ],
    ["a table", rows_text.replace('"public.site"', '"public.site; select pg_sleep(1)"')],
    ["a sequence", rows_text.replace('"sequences": [', '"sequences": [ { "name": "pg_catalog.x", "value": "1" },').replace(",]", "]")],
  ];
  for (const [what, text] of attacks) {
    assert.notEqual(text, rows_text, what);
    writeFileSync(rows_file, text);
    const sha256 = createHash("sha256").update(text).digest("hex");
    writeFileSync(
      manifest_file,
      JSON.stringify({ ...manifest, database_manifest: { ...manifest.database_manifest, bytes: Buffer.byteLength(text), sha256 } }),
    );
    await using target = await createTestDatabase({ empty: true });
    const { code, output } = await onDatabase(target, "restore", "--from", to, "--data", path.join(place, "tampered-data"));
    assert.notEqual(code, 0, what);
    assert.match(output, /contains an invalid table name|is a partition whose bounds are not dates/, what);
  }
});

test("a backup of an external database is restored identically into another PostgreSQL or an embedded one", LIMIT, async () => {
  await server.program.stop();
  const to = path.join(place, "stopped");
  const made = await onDatabase(first, "backup", "--data", server.data, "--to", to);
  assert.equal(made.code, 0, made.output);
  const full = await onDatabase(second, "restore", "--from", to, "--data", path.join(place, "full"));
  assert.deepEqual(
    [full.code, /already has rows in public\.\w+: restore into a new, empty database/.test(full.output)],
    [2, true],
    full.output,
  );
  assert.deepEqual(readdirSync(path.join(place, "full")), []);

  await using third = await createTestDatabase();
  const migrated = await onDatabase(third, "restore", "--from", to, "--data", path.join(place, "third"));
  assert.equal(migrated.code, 0, migrated.output);
  const was = await rowsOf(first.connection);
  assert.ok(Object.values(was).flat().length > 50);
  assert.deepEqual(await rowsOf(third.connection), was);

  const own = path.join(place, "own");
  const embedded = await runCommand(["restore", "--from", to, "--data", own]);
  assert.equal(embedded.code, 0, embedded.output);
  const started = await startEmbedded({ directory: path.join(own, "postgres"), clock: systemClock, log: silentLog });
  assert.deepEqual(await rowsOfAndStop(started), was);
  assert.equal(existsSync(path.join(own, "tls", "ca-key.pem")), true);
});
