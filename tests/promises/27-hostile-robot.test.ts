import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { until } from "@roamfleet/clock/testing";
import { encodeFrame, FrameType, LOG_CHANNEL } from "@roamfleet/protocol/link";
import type { Client } from "@roamfleet/sdk";
import { type Identity, makeIdentity } from "../../packages/swarm/src/testing/identity.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { RawRobot } from "../hostile/raw-robot.ts";
import { ServerProcess } from "../processes/server-process.ts";
import type { HostileOrder, HostileReport } from "./hostile-robot-process.ts";
import { Probe, quantile } from "./slow-clients.ts";

const IS_FULL = promiseSize({ test: 0, full: 1 }) === 1;
const FRAMES = promiseSize({ test: 10_000, full: 1_000_000 });
/** Only one of this many frame attacks is performed. Attacks of other kinds are all performed. */
const EVERY = promiseSize({ test: 500, full: 1 });
const FRAMES_OF_ATTACK = promiseSize({ test: 8_192, full: 4_096 });
const ATTACK_MS = 100;
/** One of this many frame attacks is performed as warm-up of V8's young generation and the allocator. */
const WARM_EVERY = promiseSize({ test: 1_000, full: 25 });
const IDLE_MS = promiseSize({ test: 750, full: 20_000 });
const PROBES_PER_SECOND = 50;
const RSS_GROWTH_MAX = 64 * 1024 ** 2;
const FACTOR_MAX = 2;
/** Shorter response times are rounded up to this, because the ratio of very short times depends on the precision of the clock. */
const FLOOR_MS = 5;
const LIMIT = { timeout: promiseSize({ test: 240_000, full: 3_600_000 }) };
const LIMITS = ["--limit", "token_requests_per_minute=100000000", "--limit", "token_burst=100000000"];

const mib = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(0)} MiB`;
const rssOf = (pid: number): number => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;

async function enroll(url: string, api: Client, identity: Identity): Promise<string> {
  const { data: site } = await api.createSite({ body: { name: "Site" } });
  const { data: fleet } = await api.createFleet({ body: { name: "Fleet", site_id: site.id } });
  const { data: key } = await api.createEnrollmentKey({ body: { site_id: site.id, fleet_id: fleet.id } });
  const response = await fetch(`${url}/agent/enroll`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ key: key.key, public_key: identity.public_key }),
  });
  assert.ok(response.ok, await response.clone().text());
  return ((await response.json()) as { data: { robot_id: string } }).data.robot_id;
}

/**
 * Runs the attacks in another process. A hostile robot runs on another machine in reality. In a full run, the scheduler therefore gives
 * this process only the CPU time that the server, its database and the other tenant leave. The promise is about the server's cost of
 * receiving the frames.
 */
async function attack(order: HostileOrder): Promise<HostileReport> {
  const idle = IS_FULL ? { execPath: "chrt", execArgv: ["--idle", "0", process.execPath] } : {};
  const worker = fork(path.join(import.meta.dirname, "hostile-robot-process.ts"), [JSON.stringify(order)], idle);
  const ended = once(worker, "exit").then(([code, signal]) => Promise.reject(new Error(`the hostile robot ended: ${code ?? signal}`)));
  const [report] = (await Promise.race([once(worker, "message"), ended])) as [HostileReport];
  ended.catch(() => {});
  return report;
}

test(`${FRAMES} hostile frames and floods of a robot affect neither the server nor another org`, LIMIT, async (t) => {
  await using server = await ServerProcess.start({ args: LIMITS, nodes: 1 });
  const url = server.address;
  const [hostile, other] = [await server.org("Hostile"), await server.org("Other")];
  const identity = makeIdentity();
  const private_key = identity.private_key.export({ type: "pkcs8", format: "pem" }).toString();
  const order: HostileOrder = {
    url,
    id: await enroll(url, hostile.api, identity),
    public_key: identity.public_key,
    private_key,
    every: EVERY,
    frames: FRAMES,
    frames_of_attack: FRAMES_OF_ATTACK,
    attack_ms: ATTACK_MS,
  };
  const calm = makeIdentity();
  const calm_id = await enroll(url, other.api, calm);
  const robot = await RawRobot.connect(url, { id: calm_id, identity: calm });
  let logged = 0;
  const log = async (): Promise<void> => {
    const record = {
      seq: (logged += 1),
      at: new Date().toISOString(),
      level: "info",
      source: "s",
      message: `record ${logged}`,
      fields: {},
    };
    await robot.frame(encodeFrame(FrameType.DATA, LOG_CHANNEL, Buffer.from(JSON.stringify({ type: "logs", records: [record] }))));
  };
  const pid = server.program.child.pid!;
  const idle_bytes = rssOf(pid);
  // Warm up with one round of every kind: the test measures the growth by later frames, not the first allocation.
  await attack({ ...order, every: WARM_EVERY, frames: 0 });
  using probe = new Probe({ url, ca: undefined, token: other.token }, PROBES_PER_SECOND);
  await setTimeout(IDLE_MS / 3);
  await probe.take();
  await setTimeout(IDLE_MS);
  const idle = quantile(await probe.take(), 0.99);
  const before = rssOf(pid);
  let most = before;
  const watch = setInterval(() => (most = Math.max(most, rssOf(pid))), 50);
  const logging = setInterval(() => void log(), 500);
  const report = await attack(order);
  clearInterval(watch);
  clearInterval(logging);
  const times = await probe.take();
  const loaded = quantile(times, 0.99);
  assert.deepEqual([...probe.statuses.keys()].toSorted(), [200, 201], "every probe was answered");
  const stored = async (): Promise<number> =>
    (await other.api.listRobotLogs({ params: { id: calm_id }, query: { limit: 200 } })).items.length;
  await until("the other tenant's log to be whole", async () => (await stored()) === Math.min(200, logged));
  assert.ok(report.frames >= FRAMES, `${report.frames} frames`);
  const growth_mib = (most - before) / 1024 ** 2;
  const figure =
    `${report.frames} frames in ${report.attacks} attacks: server RSS + ${growth_mib.toFixed(0)} MiB (${mib(idle_bytes)} idle, ${mib(before)} after one round of attacks, ${mib(most)} at most), ` +
    `another tenant's API p99 ${loaded.toFixed(1)} ms of ${times.length} requests, ${idle.toFixed(1)} ms before (×${(loaded / idle).toFixed(2)}), ` +
    `its ${logged} log records readable`;
  t.diagnostic(figure);
  if (IS_FULL) {
    assert.ok(most - before <= RSS_GROWTH_MAX, figure);
    assert.ok(loaded <= Math.max(FACTOR_MAX * idle, idle + FLOOR_MS), figure);
  }
  await robot.end();
  provePromise(t, 27, figure);
});
