import assert from "node:assert/strict";
import { hash, randomUUID } from "node:crypto";
import { existsSync, globSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { isTerminal } from "@roamfleet/protocol";
import type { Client } from "@roamfleet/sdk";
import { startEmbedded } from "../../packages/server/src/engines/db/embedded/index.ts";
import { silentLog } from "../../packages/server/src/engines/db/testing/index.ts";
import { Ledger } from "../crash/ledger.ts";
import { ROBOT_BACK_MS } from "../harness/deadlines.ts";
import { oneNodeOnly } from "../harness/nodes.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { withClient } from "../../packages/server/src/engines/db/with-client.ts";
import { rowsOfAndStop } from "../processes/database-rows.ts";
import { runCommand } from "../processes/server-command.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { databaseOf } from "../promises/writes-under-fire.ts";
import { BusyServer, type Timed } from "./busy-server.ts";

const LIMIT = { timeout: 300_000, skip: oneNodeOnly("the backup of an embedded database and of artifacts in the data directory") };
/** Minimum number of writes before the backup, and during it. */
const WRITES_BEFORE = 60;

let server: ServerProcess;
let api: Client;
let ledger: Ledger;
let busy: BusyServer;
let robot: AgentProcess;
let robot_id = "";
let place = "";

before(async () => {
  if (LIMIT.skip !== false) return;
  place = mkdtempSync(path.join(tmpdir(), "roamfleet-backups-"));
  server = await ServerProcess.start({ args: ["--limit", "token_requests_per_minute=1000000", "--limit", "token_burst=1000000"] });
  const made = await server.org("Kept");
  api = made.api;
  ledger = new Ledger(() => server.url, made.token);
  busy = new BusyServer(ledger);
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  robot = new AgentProcess({ url: server.url, key: key ?? "", name: "cart-1" });
  await pushBundle(api, "one", await appBundle());
  await pushBundle(api, "two", await appBundle());
  robot_id = await online();
  await deployed("one");
  busy.start((await api.createEnrollmentKey({ body: { site_id, fleet_id, max_uses: 10_000 } })).data.key ?? "");
}, LIMIT);

after(async () => {
  await busy?.stop().catch(() => {});
  await robot?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
  rmSync(place, { recursive: true, force: true });
}, LIMIT);

const online = (): Promise<string> =>
  robot.program.until(
    "the robot to be online",
    async () => (await api.listRobots({ query: { q: "cart-1" } })).items.find(({ status }) => status === "online")?.id,
    { deadline_ms: ROBOT_BACK_MS },
  );

async function deployed(tag: string): Promise<void> {
  const body = { release: tag, robot_id, rollout: { verify_seconds: 1 } };
  const { id } = (await api.createDeployment({ body, idempotency_key: randomUUID() })).data;
  const status = await until("the deployment to end", async () => {
    const now = (await api.getDeployment({ params: { id } })).data.status;
    return isTerminal(now) && now;
  });
  assert.equal(status, "applied");
}

/** Ids in the restored database. */
async function idsIn(table: Timed["table"]): Promise<Set<string>> {
  const { rows } = await withClient(await databaseOf(server), (client) => client.query<{ id: string }>(`select id from ${table}`));
  return new Set(rows.map(({ id }) => id));
}

test("a backup of a busy server is a consistent snapshot of acknowledged writes", LIMIT, async () => {
  await until("some writes", () => busy.writes.length >= WRITES_BEFORE);
  const begun = busy.moment;
  const acknowledged = ledger.acknowledged.slice();
  const to = path.join(place, "beside");
  const { code, output } = await runCommand(["backup", "--data", server.data, "--to", to]);
  assert.equal(code, 0, output);
  const during = busy.writes.filter(({ sent }) => sent > begun).length;
  assert.ok(during > 5, `${during} writes during the backup`);
  await busy.stop();
  assert.deepEqual(
    globSync("**/*", { cwd: to, withFileTypes: true })
      .filter((entry) => (statSync(path.join(entry.parentPath, entry.name)).mode & 0o077) !== 0)
      .map(({ name }) => name),
    [],
  );
  assert.deepEqual(readdirSync(place), ["beside"]);

  // The data directory is lost completely; the restored server uses the same address.
  await server.program.stop();
  for (const name of readdirSync(server.data)) rmSync(path.join(server.data, name), { recursive: true });
  const restored = await runCommand(["restore", "--from", to, "--data", server.data]);
  assert.equal(restored.code, 0, restored.output);
  await server.restart();

  const tables = {
    site: await idsIn("site"),
    config_entry: await idsIn("config_entry"),
    release: await idsIn("release"),
    robot: await idsIn("robot"),
  };
  const kept = (write: Timed): boolean => tables[write.table].has(write.id);
  const lasting = busy.writes.filter(({ deleted }) => !deleted);
  assert.deepEqual(
    lasting.filter((write) => write.answered <= begun && !kept(write)),
    [],
    "acknowledged before the backup began",
  );
  // The backup is a consistent snapshot. If it contains a write, it also contains every write that was acknowledged before the request of
  // that write was sent.
  const newest = Math.max(...lasting.filter(kept).map(({ sent }) => sent));
  assert.deepEqual(
    lasting.filter((write) => write.answered < newest && !kept(write)),
    [],
    "came before what is there",
  );
  await checkArtifacts();
  // Tokens work, and repeated requests get their stored responses: rows of one transaction are restored together.
  assert.equal(await ledger.checkReplays(acknowledged), acknowledged.length);
  assert.equal(await online(), robot_id);
  await deployed("two");
});

/** Every stored release of the restored server has its artifact, with the bytes that were uploaded. */
async function checkArtifacts(): Promise<void> {
  const { rows } = await withClient(await databaseOf(server), (client) =>
    client.query<{ org_id: string; id: string; sha: string }>(
      "select org_id, id, artifact_sha256 as sha from release where artifact_state = 'stored'",
    ),
  );
  assert.ok(rows.length > 5, `${rows.length} stored releases`);
  for (const { org_id, id, sha } of rows) {
    const file = path.join(server.data, "blobs", "blobs", org_id, sha.slice(0, 2), sha);
    assert.equal(hash("sha256", readFileSync(file)), sha, `the artifact of ${id}`);
  }
  const present = new Set(rows.map(({ id }) => id));
  for (const [id, sha] of busy.uploaded) if (present.has(id)) assert.equal(rows.find((row) => row.id === id)?.sha, sha);
}

test("the restored backup of a stopped server has the same table rows and files", LIMIT, async () => {
  await robot.program.stop();
  await server.program.stop();
  const to = path.join(place, "stopped");
  const data = path.join(place, "copy");
  assert.equal((await runCommand(["backup", "--data", server.data, "--to", to])).code, 0);
  assert.equal((await runCommand(["restore", "--from", to, "--data", data])).code, 0);
  const [was, is] = [await contents(server.data), await contents(data)];
  assert.ok(Object.values(was.rows).flat().length > 300);
  assert.deepEqual(is.rows, was.rows);
  assert.deepEqual(is.files, was.files);
  await server.restart();
});

/** Returns the rows of a data directory's database, and the checksums of the other files that a backup contains. */
async function contents(data: string): Promise<{ rows: Record<string, string[]>; files: Record<string, string> }> {
  const embedded = await startEmbedded({ directory: path.join(data, "postgres"), clock: systemClock, log: silentLog });
  const rows = await rowsOfAndStop(embedded);
  const names = globSync("{blobs/blobs,tls}/**/*", { cwd: data }).filter((name) => statSync(path.join(data, name)).isFile());
  const files = [...names, "node-id", "secrets.key"].toSorted();
  return { rows, files: Object.fromEntries(files.map((name) => [name, hash("sha256", readFileSync(path.join(data, name)))])) };
}

test("backup and restore never overwrite files, and name the existing path", LIMIT, async () => {
  const beside = path.join(place, "beside");
  const again = await runCommand(["backup", "--data", server.data, "--to", beside]);
  assert.deepEqual([again.code, /is not empty: choose a new directory/.test(again.output)], [2, true], again.output);
  const file = await runCommand(["backup", "--data", server.data, "--to", path.join(beside, "manifest.json")]);
  assert.deepEqual([file.code, /exists and is not a directory/.test(file.output)], [2, true], file.output);
  const running = await runCommand(["restore", "--from", beside, "--data", server.data]);
  assert.deepEqual([running.code, /already in use by process \d+/.test(running.output)], [2, true], running.output);
  const full = await runCommand(["restore", "--from", beside, "--data", path.join(place, "copy")]);
  assert.deepEqual([full.code, /is not empty: restore into a new --data directory/.test(full.output)], [2, true], full.output);
  const none = await runCommand(["backup", "--data", path.join(place, "none"), "--to", path.join(place, "of-none")]);
  assert.deepEqual([none.code, /the data directory .* does not exist/.test(none.output)], [2, true], none.output);
  assert.equal(existsSync(path.join(place, "of-none")), false);
});
