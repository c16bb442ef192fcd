import assert from "node:assert/strict";
import { hash, randomBytes, randomUUID } from "node:crypto";
import { readdirSync } from "node:fs";
import http from "node:http";
import { json } from "node:stream/consumers";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { runningDatabase } from "../../packages/server/src/engines/db/embedded/index.ts";
import { Ledger } from "../crash/ledger.ts";
import { withClient } from "../../packages/server/src/engines/db/with-client.ts";
import { oneNodeOnly } from "../harness/nodes.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { SmallDisk } from "../processes/small-disk.ts";

const LIMIT = { timeout: 300_000, skip: oneNodeOnly("the disk of an embedded database") };
const DISK_MB = 200;
/** Random text, which does not compress. */
const VALUE_BYTES = 120_000;
/** Maximum number of writes: more than fit into the free space of existing database pages. */
const WRITES_MAX = 500;

test("a server with a full disk returns 503, keeps acknowledged data, and recovers automatically", LIMIT, async (t) => {
  using disk = SmallDisk.mount(DISK_MB);
  if (disk === undefined) return t.skip("needs root to mount a small tmpfs");
  await using server = await ServerProcess.start({
    place: disk.directory,
    args: ["--limit", "free_disk_bytes_min=0", "--limit", "token_requests_per_minute=1000000", "--limit", "token_burst=1000000"],
  });
  const { token } = await server.org("Full");
  const ledger = new Ledger(() => server.url, token);
  await ledger.post("/api/sites", { name: "Before" });

  await refusedUpload(server, ledger, token, disk);

  assert.equal(await writeUntilRefused(ledger, disk), "the server's disk is full, nothing was written");
  disk.fill();
  const ready = (await (await fetch(`${server.url}/readyz`)).json()) as { checks: Record<string, string> };
  assert.equal(ready.checks["disk"], "full", "reads work, and what makes room again comes through the API");
  assert.match(await (await fetch(`${server.url}/metrics`)).text(), /^roamfleet_disk_full 1$/m);
  await fillLog(server);
  await server.program.until("PostgreSQL to end", () => server.program.output.includes("PostgreSQL ended unexpectedly, restarting it"));
  disk.fill();
  // PostgreSQL may have had room to recover, so the disk is filled again each time.
  const refused = async (): Promise<boolean> => (await writeUntilRefused(ledger, disk)) === "the database does not answer";
  await until("writes to be refused without a database", refused, { meanwhile: () => fillLog(server) });
  await server.program.until("PostgreSQL to fail again", async () => {
    if (server.program.output.includes("could not restart PostgreSQL")) return true;
    // PostgreSQL had room to recover: fill the disk again.
    disk.fill();
    await fillLog(server);
    return false;
  });
  assert.equal(server.program.running, true);
  assert.equal((await ledger.once("GET", "/healthz")).status, 200);

  disk.makeRoom();
  await ledger.post("/api/sites", { name: "After" });
  const replays = await ledger.checkReplays();
  assert.equal(server.program.running, true);
  assert.equal(/"status":500/.test(server.program.output), false, "a request failed with 500");
  t.diagnostic(`${replays} acknowledged writes replayed, ${ledger.refusals.length} tries until the first write after there was room`);
  assert.equal(await server.program.stop(), 0);
});

/** Fills the write-ahead log. PostgreSQL panics when it cannot create another segment, and cannot recover until there is room. */
async function fillLog(server: ServerProcess): Promise<void> {
  const running = await runningDatabase(path.join(server.data, "postgres"));
  if (running === undefined) return;
  await withClient(running, async (client) => {
    for (;;) await client.query("select pg_logical_emit_message(true, 'fill', repeat('x', 1000000)), pg_switch_wal()");
  }).catch(() => {});
}

/** Writes while the disk is kept full, until a write is refused with 503 and Retry-After. Returns the first part of its message. */
async function writeUntilRefused(ledger: Ledger, disk: SmallDisk): Promise<string> {
  for (let n = 0; n < WRITES_MAX; n += 1) {
    disk.fill();
    const key = randomUUID();
    const body = { scope: "org", namespace: "full", key: randomUUID(), value: randomBytes(VALUE_BYTES / 2).toString("hex") };
    const answer = await ledger.once("POST", "/api/configs", body, key);
    if (answer.status !== 201) {
      assert.equal(answer.status, 503, answer.text);
      assert.ok(Number(answer.headers.get("retry-after")) > 0);
      return (JSON.parse(answer.text) as { error: { message: string } }).error.message.split(";")[0] ?? "";
    }
    ledger.acknowledged.push({ path: "/api/configs", body, key, status: 201, text: answer.text, deleted: false });
  }
  throw new Error(`${WRITES_MAX} writes on a full disk were acknowledged`);
}

/** Fills the disk during an upload: nothing of it is kept, and the same upload succeeds once there is room. */
async function refusedUpload(server: ServerProcess, ledger: Ledger, token: string, disk: SmallDisk): Promise<void> {
  const bytes = randomBytes(8 * 1024 * 1024);
  const about = { tag: "large", kind: "file", artifact_sha256: hash("sha256", bytes), artifact_size: bytes.length };
  const { id } = await ledger.post("/api/releases", about);
  const request = http.request(`${server.url}/api/releases/${id}/artifact`, {
    method: "PUT",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/octet-stream", "content-length": bytes.length },
  });
  const answered = new Promise<http.IncomingMessage>((resolve, reject) => request.once("response", resolve).once("error", reject));
  request.write(bytes.subarray(0, 1024 * 1024));
  const staging = path.join(server.data, "blobs", "staging");
  await until("the first bytes to lie on the disk", () => readdirSync(staging).length > 0);
  disk.fill();
  request.end(bytes.subarray(1024 * 1024));
  const response = await answered;
  const { error } = (await json(response)) as { error: { code: string; message: string } };
  assert.deepEqual([response.statusCode, error.code], [503, "http_error"]);
  assert.match(error.message, /the server's disk is full, there is no space for the artifact of release large/);
  assert.ok(Number(response.headers["retry-after"]) > 0);
  assert.deepEqual(readdirSync(staging), []);
  disk.makeRoom();
  const { status, text } = await ledger.send("PUT", `/api/releases/${id}/artifact`, bytes);
  assert.equal(status, 200, text);
}
