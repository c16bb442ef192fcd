import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { request } from "node:http";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { until } from "@roamfleet/clock/testing";
import type { Client } from "@roamfleet/sdk";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { Probe, type ProbeTarget, quantile, SlowClients, type SlowReport, socketsOf } from "./slow-clients.ts";

const COUNT = promiseSize({ test: 300, full: 5_000 });
const ROUNDS = promiseSize({ test: 1, full: 3 });
const IDLE_MS = promiseSize({ test: 1_500, full: 15_000 });
const IS_FULL = promiseSize({ test: 0, full: 1 }) === 1;
/** Rate at which connections are opened. It is high enough that all are open before the first one times out. */
const OPENED_PER_SECOND = 700;
const PROBES_PER_SECOND = 100;
/** The promise of 15 s applies to an idle machine. While other tests run, the server must close the connections within a minute. */
const CLOSED_MS_MAX = promiseSize({ test: 60_000, full: 15_000 });
const FACTOR_MAX = 2;
/** Shorter response times are rounded up to this, because the ratio of very short times depends on the precision of the clock. */
const FLOOR_MS = 5;
const LIMIT = { timeout: promiseSize({ test: 240_000, full: 600_000 }) };
/** An uplink of a few kB a second. */
const SLOW_LINE_BYTES_PER_SECOND = 4_096;
const SLOW_LINE_SECONDS = 13;

const LIMITS = ["--limit", "token_requests_per_minute=100000000", "--limit", "token_burst=100000000"];

async function release(api: Client, tag: string, bytes: Buffer): Promise<string> {
  const body = { tag, kind: "file", artifact_sha256: hash("sha256", bytes), artifact_size: bytes.length };
  return `/api/releases/${(await api.createRelease({ body })).data.id}/artifact`;
}

/** Sends a body at the rate of a slow connection. Returns the status of the response. */
async function uploadSlowly(url: string, method: string, headers: Record<string, string>, bytes: Buffer): Promise<number> {
  const answered = Promise.withResolvers<number>();
  const sent = request(url, { method, headers: { ...headers, "content-length": bytes.length } }, (response) => {
    response.resume();
    answered.resolve(response.statusCode ?? 0);
  });
  sent.on("error", answered.reject);
  const part = SLOW_LINE_BYTES_PER_SECOND / 4;
  for (let at = 0; at < bytes.length; at += part) {
    sent.write(bytes.subarray(at, at + part));
    await setTimeout(250);
  }
  sent.end();
  return answered.promise;
}

/** Uploads of an honest client over a slow connection, during the attack: one in a single request, and one by tus. */
async function slowUploads({ url, token }: ProbeTarget, api: Client): Promise<void> {
  const bytes = Buffer.alloc(SLOW_LINE_BYTES_PER_SECOND * SLOW_LINE_SECONDS, "slow but sure ");
  const authorization = `Bearer ${token}`;
  const [whole, by_tus] = [await release(api, "slow", bytes), await release(api, "slow-tus", bytes)];
  const tus = { authorization, "tus-resumable": "1.0.0" };
  const started = await fetch(url + by_tus, { method: "POST", headers: { ...tus, "upload-length": String(bytes.length) } });
  assert.equal(started.status, 201);
  const statuses = await Promise.all([
    uploadSlowly(url + whole, "PUT", { authorization, "content-type": "application/octet-stream" }, bytes),
    uploadSlowly(url + by_tus, "PATCH", { ...tus, "upload-offset": "0", "content-type": "application/offset+octet-stream" }, bytes),
  ]);
  assert.deepEqual(statuses, [200, 204]);
}

interface Measured {
  idle_ms: number[];
  /** Response times while the slow clients connect: 700 TLS handshakes per second load any server. */
  opening_ms: number[];
  /** Response times after the last slow client has connected and before the last one is disconnected. */
  loaded_ms: number[];
  held: number;
  longest_ms: number;
  kinds: number;
}

/** Measures response times without and with slow clients. The server must close the sockets while the clients keep them open. */
async function measure(
  server: ServerProcess,
  target: ProbeTarget,
  upload_path: string,
  meanwhile?: () => Promise<void>,
): Promise<Measured> {
  const { hostname: host, port } = new URL(server.address);
  const pid = server.program.child.pid!;
  const measured: Measured = { idle_ms: [], opening_ms: [], loaded_ms: [], held: Infinity, longest_ms: 0, kinds: 0 };
  using probe = new Probe(target, PROBES_PER_SECOND);
  await setTimeout(IDLE_MS / 3);
  await probe.take();
  for (let round = 0; round < ROUNDS; round += 1) {
    await setTimeout(IDLE_MS);
    measured.idle_ms.push(...(await probe.take()));
    const before = socketsOf(pid);
    await using slow = new SlowClients({
      host,
      port: Number(port),
      ca: target.ca,
      token: target.token,
      upload_path,
      count: COUNT,
      per_second: OPENED_PER_SECOND,
    });
    const other = round === 0 ? meanwhile?.() : undefined;
    other?.catch(() => {});
    measured.held = Math.min(measured.held, await slow.opened);
    measured.opening_ms.push(...(await probe.take()));
    const report = await slow.report;
    measured.loaded_ms.push(...(await probe.take()));
    check(report);
    measured.longest_ms = Math.max(measured.longest_ms, ...Object.values(report).map(({ longest_ms }) => longest_ms));
    measured.kinds = Object.keys(report).length;
    await other;
    // Allow some more sockets than before, because the probe may have opened connections meanwhile.
    await until("the server to have let go of every socket", () => socketsOf(pid) <= before + 32);
  }
  assert.deepEqual([...probe.statuses.keys()].toSorted(), [200, 201], "every probe was answered");
  return measured;
}

function check(report: SlowReport): void {
  const late = Object.entries(report).filter(([, { longest_ms }]) => longest_ms > CLOSED_MS_MAX);
  assert.deepEqual(late, [], `closed later than after ${CLOSED_MS_MAX} ms`);
  const answers = Object.values(report).flatMap((one) => one.answers);
  assert.deepEqual(
    answers.filter((answer) => /^(2|5(?!03))/.test(answer)),
    [],
    JSON.stringify(report),
  );
  assert.equal(
    Object.values(report).reduce((sum, { not_opened }) => sum + not_opened, 0),
    0,
    "each could be opened",
  );
}

function figure({ idle_ms, opening_ms, loaded_ms, held, longest_ms, kinds }: Measured, over: string): string {
  const [idle, loaded] = [quantile(idle_ms, 0.99), quantile(loaded_ms, 0.99)];
  if (IS_FULL) {
    assert.ok(held >= COUNT * 0.8, `only ${held} of ${COUNT} were open at once`);
    const bound = Math.max(FACTOR_MAX * idle, idle + FLOOR_MS);
    assert.ok(loaded <= bound, `p99 ${loaded.toFixed(1)} ms with slow clients, ${idle.toFixed(1)} ms without`);
  }
  return (
    `${COUNT} half-open sockets of ${kinds} kinds over ${over} (${held} at once): ` +
    `API p99 ${loaded.toFixed(1)} ms of ${loaded_ms.length} requests, ${idle.toFixed(1)} ms of ${idle_ms.length} without them ` +
    `(×${(loaded / idle).toFixed(2)}), ${quantile(opening_ms, 0.99).toFixed(1)} ms while ${OPENED_PER_SECOND} a second were opened; the last was closed after ${(longest_ms / 1_000).toFixed(1)} s`
  );
}

test(`disconnects ${COUNT} stalled clients in time, and serves slow and normal clients meanwhile`, LIMIT, async (t) => {
  await using server = await ServerProcess.start({ args: LIMITS });
  const { api, token } = await server.org("Slow clients");
  const target = { url: server.address, ca: undefined, token };
  const upload_path = await release(api, "never", Buffer.alloc(50_000_000));
  const measured = await measure(server, target, upload_path, () => slowUploads(target, api));
  provePromise(t, 8, `${figure(measured, "plain HTTP")}; uploads at 4 KiB/s went through meanwhile`);
});

test(`${COUNT} clients that stall during or after the TLS handshake do not delay other clients`, LIMIT, async (t) => {
  await using server = await ServerProcess.start({ args: [...LIMITS, "--tls", "auto"] });
  const { token } = await server.org("Slow clients");
  const measured = await measure(server, { url: server.address, ca: server.ca, token }, "/api/releases/none/artifact");
  provePromise(t, 8, figure(measured, "TLS"));
});
