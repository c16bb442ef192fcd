import assert from "node:assert/strict";
import { hash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { until } from "@roamfleet/clock/testing";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { RawRobot } from "../hostile/raw-robot.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { Probe, quantile } from "./slow-clients.ts";
import type { FloodOrder, FloodReport } from "./tenant-flood-worker.ts";
import { call, createPlace, enroll, logFrame, type Org, release } from "./tenant-requests.ts";

const LIMIT = { timeout: promiseSize({ test: 240_000, full: 900_000 }) };
const MS = promiseSize({ test: 2_500, full: 60_000 });
/** Requests per second that measure response times: fewer than the default rate limit of one token. */
const PROBES_PER_SECOND = 9;
/** Maximum 99th percentile of another org's response times during the flood. The flood keeps a server with two cores busy. */
const P99_MS_MAX = 200;
const IS_FULL = promiseSize({ test: 0, full: 1 }) === 1;
const TOKENS = 20;
const ROBOTS = 4;
const SOCKETS = 200;
const EVENT_STREAMS = 100;
const LIMITS = [
  "uploads_per_org_max=16",
  "event_streams_per_org_max=50",
  "log_burst_bytes_per_robot=4000000",
  "log_bytes_per_robot_per_second=100000",
];

/** The flood runs in a separate thread, so that its work does not delay the requests that are measured here. */
class Flood {
  readonly #worker: Worker;

  private constructor(worker: Worker) {
    this.#worker = worker;
  }

  static async start(url: string, { token }: Org): Promise<Flood> {
    const order: FloodOrder = { url, token, tokens: TOKENS, robots: ROBOTS, sockets: SOCKETS, event_streams: EVENT_STREAMS };
    const worker = new Worker(new URL("./tenant-flood-worker.ts", import.meta.url), { workerData: order });
    // From this message on, uploads and event streams of the flooding org are refused.
    await once(worker, "message");
    return new Flood(worker);
  }

  async end(): Promise<FloodReport> {
    const report = once(this.#worker, "message");
    this.#worker.postMessage("end", []);
    return ((await report) as [FloodReport])[0];
  }
}

/** Performs each daily operation of an org once. Throws if the server refuses one. */
async function work(url: string, org: Org, { fleet_id, key }: { fleet_id: string; key: string }): Promise<void> {
  const bytes = randomBytes(200_000);
  const { data: made } = await org.api.createRelease({ body: release(bytes.length, hash("sha256", bytes)) });
  const path = `/api/releases/${made.id}/artifact`;
  const tus = { "tus-resumable": "1.0.0" };
  assert.equal((await call(url, org.token, "POST", path, { headers: { ...tus, "upload-length": String(bytes.length) } })).status, 201);
  const part = await fetch(url + path, {
    method: "PATCH",
    headers: { authorization: `Bearer ${org.token}`, ...tus, "upload-offset": "0", "content-type": "application/offset+octet-stream" },
    body: Uint8Array.from(bytes),
  });
  assert.equal(part.status, 204);
  const { id, identity, status } = await enroll(url, key);
  assert.equal(status, 201);
  const robot = await RawRobot.connect(url, { id, identity });
  await robot.frame(logFrame(1, 20, "all is fine"));
  await until("the log to be stored", () => robot.heard.some((message) => message.type === "log_ack" && message.seq === 20));
  assert.equal((await org.api.listRobotLogs({ params: { id } })).items.length, 20);
  await robot.end();
  const body = { fleet_id, release: made.tag };
  assert.equal((await call(url, org.token, "POST", "/api/deployments", { body, headers: { "idempotency-key": made.id } })).status, 201);
}

test("an org at all of its limits does not delay or refuse requests of another org", LIMIT, async (t) => {
  await using server = await ServerProcess.start({ nodes: 1, args: LIMITS.flatMap((limit) => ["--limit", limit]) });
  const { address: url } = server;
  const [hostile, other] = [await server.org("Hostile"), await server.org("Other")];
  const { api, token } = await server.org("Probed");
  await api.createSite({ body: { name: "First" } });
  const place = await createPlace(other);
  await work(url, other, place);
  using probe = new Probe({ url, ca: undefined, token }, PROBES_PER_SECOND);
  await setTimeout(MS / 2);
  await probe.take();
  await setTimeout(MS);
  const idle_ms = await probe.take();

  const flood = await Flood.start(url, hostile);
  await probe.take();
  const until_at = performance.now() + MS;
  let worked = 0;
  while (performance.now() < until_at || worked === 0) {
    await work(url, other, place);
    worked += 1;
    await setTimeout(500);
  }
  const flooded_ms = await probe.take();
  const report = await flood.end();

  assert.deepEqual([...probe.statuses.keys()].toSorted(), [200, 201], "the other tenant's calls are all answered");
  for (const what of ["uploads", "event streams"]) assert.ok((report[what]?.refused ?? 0) > 0, `the flood reached the limit of ${what}`);
  const [idle, flooded] = [quantile(idle_ms, 0.99), quantile(flooded_ms, 0.99)];
  const reached = Object.entries(report)
    .map(([what, { taken, refused }]) => `${taken} ${what} (${refused} refused)`)
    .join(", ");
  const figure = `${reached}, ${SOCKETS} silent sockets, ${ROBOTS} flooding robots: 0 refusals of ${flooded_ms.length} calls and ${worked} rounds of work of other orgs; API p99 ${flooded.toFixed(1)} ms, ${idle.toFixed(1)} ms idle`;
  t.diagnostic(figure);
  if (IS_FULL) assert.ok(flooded <= P99_MS_MAX, figure);
  provePromise(t, 28, figure);
});
