import assert from "node:assert/strict";
import { hash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { encodeFrame, FrameType, LINK_SUBPROTOCOL, LOG_CHANNEL } from "@robofleet/protocol/link";
import { LINK_PATH } from "@robofleet/protocol/paths";
import { until } from "@robofleet/clock/testing";
import type { Client } from "@robofleet/sdk";
import { WebSocket } from "ws";
import { makeIdentity } from "../../packages/swarm/src/identity.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { RawRobot } from "../hostile/raw-robot.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { Probe, quantile } from "./slow-clients.ts";

const LIMIT = { timeout: promiseSize({ test: 240_000, full: 900_000 }) };
const MS = promiseSize({ test: 2_500, full: 60_000 });
/** Below the default rate of one token. */
const PROBES_PER_SECOND = 9;
const FACTOR_MAX = 2;
/** Below this a factor says more about the clock of the machine than about the server. */
const FLOOR_MS = 10;
const IS_FULL = promiseSize({ test: 0, full: 1 }) === 1;
const TOKENS = 20;
const ROBOTS = 4;
const SOCKETS = 200;
const EVENT_STREAMS = 100;
const GIB = 1024 ** 3;
const LIMITS = [
  "uploads_per_org_max=16",
  "event_streams_per_org_max=50",
  "log_burst_bytes_per_robot=4000000",
  "log_bytes_per_robot_per_second=100000",
];

interface Org {
  api: Client;
  token: string;
}

/** What stops with the flood. */
interface Flood {
  over: boolean;
  /** By what was asked: how often the server refused it, and how often it did not. */
  counts: Map<string, { taken: number; refused: number }>;
}

const counted = ({ counts }: Flood, what: string, status: number): void => {
  const count = counts.get(what) ?? { taken: 0, refused: 0 };
  if (status < 400) count.taken += 1;
  else count.refused += 1;
  counts.set(what, count);
};

const call = (url: string, token: string, method: string, path: string, more: { body?: unknown; headers?: Record<string, string> } = {}) =>
  fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(more.body === undefined ? {} : { "content-type": "application/json" }),
      ...more.headers,
    },
    ...(more.body === undefined ? {} : { body: JSON.stringify(more.body) }),
  });

let names = 0;
const release = (size: number, sha256 = hash("sha256", randomBytes(8))) => ({
  tag: `v${(names += 1)}`,
  kind: "file" as const,
  artifact_sha256: sha256,
  artifact_size: size,
});

async function placeOf({ api }: Org) {
  const site = (await api.createSite({ body: { name: "Yard" } })).data;
  const fleet = (await api.createFleet({ body: { name: "All", site_id: site.id } })).data;
  const { key } = (await api.createEnrollmentKey({ body: { site_id: site.id, fleet_id: fleet.id, max_uses: 0 } })).data;
  return { fleet_id: fleet.id, key: key ?? "" };
}

async function enroll(url: string, key: string) {
  const identity = makeIdentity();
  const answer = await fetch(`${url}/agent/enroll`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ key, public_key: identity.public_key }),
  });
  const { data } = (await answer.json()) as { data: { robot_id: string } };
  return { status: answer.status, id: data?.robot_id, identity };
}

const logFrame = (seq: number, count: number, message: string): Buffer => {
  const records = Array.from({ length: count }, (_, i) => ({
    seq: seq + i,
    at: new Date().toISOString(),
    level: "info",
    source: "flood",
    message,
    fields: {},
  }));
  return encodeFrame(FrameType.DATA, LOG_CHANNEL, Buffer.from(JSON.stringify({ type: "logs", records })));
};

/** A link that never says who it is, from an address of the hostile org. */
function silentSocket(url: string): WebSocket {
  const socket = new WebSocket(url.replace(/^http/, "ws") + LINK_PATH, LINK_SUBPROTOCOL, { localAddress: "127.0.0.9" });
  socket.on("error", () => {});
  return socket;
}

/** Robots that log as much as their lines take. */
async function floodLogs(url: string, key: string, flood: Flood): Promise<void> {
  const { id, identity } = await enroll(url, key);
  const robot = await RawRobot.connect(url, { id, identity });
  for (let seq = 1; !flood.over && robot.open; seq += 100) {
    await robot.frame(logFrame(seq, 100, "x".repeat(300)));
    counted(flood, "log flushes", 200);
    await setTimeout(1);
  }
  await robot.end();
}

/** The same request again and again, as fast as it is answered. */
async function repeat(flood: Flood, what: string, ask: () => Promise<Response>): Promise<void> {
  while (!flood.over) {
    const answer = await ask().catch(() => undefined);
    await answer?.body?.cancel();
    counted(flood, what, answer?.status ?? 0);
    // Who is refused comes back, and not as a loop without a breath.
    await setTimeout((answer?.status ?? 0) < 400 ? 1 : 20);
  }
}

async function announceUpload(url: string, token: string): Promise<Response> {
  const made = await call(url, token, "POST", "/api/releases", { body: release(2 * GIB) });
  if (!made.ok) return made;
  const { data } = (await made.json()) as { data: { id: string } };
  return await call(url, token, "POST", `/api/releases/${data.id}/artifact`, {
    headers: { "tus-resumable": "1.0.0", "upload-length": String(2 * GIB) },
  });
}

async function startFlood(url: string, org: Org, flood: Flood): Promise<{ end(): Promise<void> }> {
  const { fleet_id, key } = await placeOf(org);
  const tokens: string[] = [];
  for (let i = 0; i < TOKENS; i += 1)
    tokens.push((await org.api.createToken({ body: { label: `t${i}`, role: "admin" } })).data.token ?? "");
  const tag = (await org.api.createRelease({ body: release(1_000) })).data.tag;
  const ends = new AbortController();
  const sockets = Array.from({ length: SOCKETS }, () => silentSocket(url));
  const of = (i: number): string => tokens[i % tokens.length] ?? org.token;
  const running = [
    ...Array.from({ length: ROBOTS }, () => floodLogs(url, key, flood)),
    ...tokens.map((token) => repeat(flood, "lists", () => call(url, token, "GET", "/api/robots"))),
    ...Array.from({ length: 4 }, (_, i) => repeat(flood, "uploads", () => announceUpload(url, of(i)))),
    ...Array.from({ length: 2 }, (_, i) =>
      repeat(flood, "deployments", () =>
        call(url, of(i), "POST", "/api/deployments", {
          body: { fleet_id, release: tag },
          headers: { "idempotency-key": randomBytes(8).toString("hex") },
        }),
      ),
    ),
    repeat(flood, "enrollments", async () => new Response(null, { status: (await enroll(url, key)).status })),
    ...Array.from({ length: EVENT_STREAMS }, async (_, i) => {
      const answer = await fetch(`${url}/api/events`, { headers: { authorization: `Bearer ${of(i)}` }, signal: ends.signal }).catch(
        () => undefined,
      );
      counted(flood, "event streams", answer?.status ?? 0);
      await answer?.body?.pipeTo(new WritableStream()).catch(() => {});
    }),
  ];
  return {
    end: async () => {
      flood.over = true;
      ends.abort();
      for (const socket of sockets) socket.terminate();
      await Promise.allSettled(running);
    },
  };
}

/** Everything that an org does in a day, once; throws where the server refuses any of it. */
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

test("an org at all of its limits at once: another org is refused nothing and its calls are as fast as before", LIMIT, async (t) => {
  await using server = await ServerProcess.start({ nodes: 1, args: LIMITS.flatMap((limit) => ["--limit", limit]) });
  const { address: url } = server;
  const [hostile, other] = [await server.org("Hostile"), await server.org("Other")];
  const { api, token } = await server.org("Probed");
  await api.createSite({ body: { name: "First" } });
  const place = await placeOf(other);
  await work(url, other, place);
  using probe = new Probe({ url, ca: undefined, token }, PROBES_PER_SECOND);
  await setTimeout(MS / 2);
  await probe.take();
  await setTimeout(MS);
  const idle_ms = await probe.take();

  const flood: Flood = { over: false, counts: new Map<string, { taken: number; refused: number }>() };
  const running = await startFlood(url, hostile, flood);
  await probe.take();
  const until_at = performance.now() + MS;
  let worked = 0;
  while (performance.now() < until_at || worked === 0) {
    await work(url, other, place);
    worked += 1;
    await setTimeout(500);
  }
  const flooded_ms = await probe.take();
  await running.end();

  assert.deepEqual([...probe.statuses.keys()].toSorted(), [200, 201], "the other tenant's calls are all answered");
  for (const what of ["uploads", "event streams"])
    assert.ok((flood.counts.get(what)?.refused ?? 0) > 0, `the flood reached the limit of ${what}`);
  const [idle, flooded] = [quantile(idle_ms, 0.99), quantile(flooded_ms, 0.99)];
  const reached = [...flood.counts].map(([what, { taken, refused }]) => `${taken} ${what} (${refused} refused)`).join(", ");
  const figure = `${reached}, ${SOCKETS} silent sockets, ${ROBOTS} flooding robots: 0 refusals of ${flooded_ms.length} calls and ${worked} rounds of work of other orgs; API p99 ${flooded.toFixed(1)} ms, ${idle.toFixed(1)} ms idle`;
  t.diagnostic(figure);
  if (IS_FULL) assert.ok(flooded <= Math.max(FACTOR_MAX * idle, idle + FLOOR_MS), figure);
  provePromise(t, 28, figure);
});
