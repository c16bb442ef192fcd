import assert from "node:assert/strict";
import { generateKeyPairSync, hash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { after, test } from "node:test";
import { setImmediate, setTimeout } from "node:timers/promises";
import { until } from "@roamfleet/clock/testing";
import { type Route, routes } from "@roamfleet/protocol/routes";
import type { Client } from "@roamfleet/sdk";
import { type Ids, sampleEmail, sampleRequest } from "../authorization/sample-requests.ts";
import { checkTime, promiseSize, provePromise } from "../harness/promise.ts";
import { isAtLeast } from "../harness/log-level.ts";
import { HOSTILE_LENGTHS, type HostileBody, hostileBodies } from "../hostile/bodies.ts";
import { ServerProcess } from "../processes/server-process.ts";

const ROUNDS = promiseSize({ test: 1, full: 5 });
const LIMIT = { timeout: promiseSize({ test: 300_000, full: 1_800_000 }) };
const AT_ONCE = 8;
const GROWTH_BYTES_MAX = 50 * 1024 * 1024;
const ANSWER_MS_MAX = 60_000;
/** Error messages are for people: they never repeat a whole body. */
const MESSAGE_CHARACTERS_MAX = 500;
const ENDLESS_CLOSED_MS_MAX = 15_000;

const server = await ServerProcess.start({
  args: ["token_requests_per_minute", "token_burst", "unknown_requests_per_minute"].flatMap((name) => ["--limit", `${name}=100000000`]),
});
after(() => server[Symbol.asyncDispose]());
const { api, token } = await server.org("Hostile bodies");
const address = new URL(server.address);
const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
after(() => agent.destroy());

const json_routes = (Object.values(routes) as Route[]).filter(({ body }) => body !== undefined);
const things = await makeIds(api);

/** Returns the id of one object of each kind that a path or body can name. */
async function makeIds(of: Client): Promise<Ids> {
  const site_id = (await of.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await of.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const key = (await of.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  const public_key = generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("base64");
  const enrolled = await fetch(`${server.address}/agent/enroll`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ key: key.key, public_key }),
  });
  const { robot_id } = ((await enrolled.json()) as { data: { robot_id: string } }).data;
  const sha256 = hash("sha256", "bytes");
  const release = (await of.createRelease({ body: { tag: "one", kind: "file", artifact_sha256: sha256, artifact_size: 5 } })).data;
  const deploy = { body: { release: release.id, robot_id }, idempotency_key: randomUUID() };
  const user = (await of.createUser({ body: { email: sampleEmail(), name: "Ada", role: "viewer" } })).data;
  return {
    sha256,
    enrollment_key: key.key ?? "",
    ids: {
      org_id: (await of.getOrg()).data.id,
      site_id,
      fleet_id,
      robot_id,
      target_id: robot_id,
      scope_id: robot_id,
      user_id: user.id,
      release_id: release.id,
      release: release.id,
      "/api/sites": site_id,
      "/api/fleets": fleet_id,
      "/api/robots": robot_id,
      "/api/releases": release.id,
      "/api/deployments": (await of.createDeployment(deploy)).data.id,
      "/api/configs": (await of.setConfig({ body: { key: "speed", value: 1 } })).data.id,
      "/api/enrollment-keys": key.id,
      "/api/users": user.id,
      "/api/tokens": (await of.createToken({ body: { label: "sample", role: "viewer" } })).data.id,
      "/api/admin/orgs": (await of.getOrg()).data.id,
    },
  };
}

/** Admin routes are open to this machine; with a token they would respond in the same way. */
const headersOf = ({ access, idempotency }: Route): Record<string, string> => ({
  ...(access === "service_admin" || access === "public" ? {} : { authorization: `Bearer ${token}` }),
  ...(idempotency === "required" ? { "idempotency-key": randomUUID() } : {}),
});

interface Answer {
  status: number;
  text: string;
}

function send(route: Route, path: string, body: HostileBody): Promise<Answer> {
  const { bytes, headers = {} } = body;
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const sent = request(
    server.address + path,
    {
      method: route.method,
      agent,
      timeout: ANSWER_MS_MAX,
      headers: { "content-type": "application/json", "content-length": bytes.length, ...headersOf(route), ...headers },
    },
    (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => (text += part));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
      response.on("error", reject);
    },
  );
  sent.on("timeout", () => sent.destroy(new Error("no answer")));
  // Retry, because the server may close a keep-alive connection while the client reuses it. HTTP requires such a retry.
  sent.on("error", (error) => (sent.reusedSocket && "code" in error ? resolve(send(route, path, body)) : reject(error)));
  sent.end(bytes);
  return promise;
}

/** Sends raw bytes, and reads until the connection ends, or until the first response is complete. */
async function sendRaw(text: string, ends: boolean): Promise<Answer> {
  const socket = connect({ host: address.hostname, port: Number(address.port), allowHalfOpen: true });
  socket.setTimeout(ANSWER_MS_MAX, () => socket.destroy(new Error("no answer")));
  let answer = "";
  socket.setEncoding("utf8").on("data", (part: string) => (answer += part));
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.write(text);
  if (ends) socket.end();
  await until("an answer", () => socket.closed || socket.readableEnded || /\r\n\r\n\{.*\}$/s.test(answer));
  socket.destroy();
  const [, status = "0"] = /^HTTP\/1\.1 (\d{3})/.exec(answer) ?? [];
  const [, length = "0"] = /\r\ncontent-length: (\d+)\r\n/i.exec(answer) ?? [];
  const begins = answer.indexOf("\r\n\r\n") + 4;
  // If the Content-Length is too small, the server treats the remaining bytes as another request and answers it too.
  return { status: Number(status), text: answer.slice(begins, begins + Number(length)) };
}

function check(what: string, { status, text }: Answer): void {
  assert.ok(status >= 400 && status < 500, `${what} was answered ${status} ${text.slice(0, 300)}`);
  const { error } = JSON.parse(text) as { error: { code: string; message: string } };
  assert.ok(error.message.length <= MESSAGE_CHARACTERS_MAX, `${what}: ${error.message.slice(0, 1_000)}`);
  assert.doesNotMatch(error.message, /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|\bat .*:\d+:\d+/u, what);
}

const mib = (bytes: number): string => (bytes / 1024 ** 2).toFixed(0);

/** Resident pages of the server: now, and the maximum since the last `resetPeak`. */
function memory(): { now: number; peak: number } {
  const status = readFileSync(`/proc/${server.program.child.pid}/status`, "utf8");
  const bytes = (field: string): number => Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) * 1_024;
  return { now: bytes("VmRSS"), peak: bytes("VmHWM") };
}

/** Writing 5 resets the peak, see proc(5). */
const resetPeak = (): void => writeFileSync(`/proc/${server.program.child.pid}/clear_refs`, "5");

async function attack(route: Route, statuses: Map<number, number>): Promise<void> {
  const { path, body = {} } = sampleRequest(route, things);
  const waiting = new Set<Promise<void>>();
  for (const hostile of hostileBodies(route.body, body)) {
    const sent = send(route, path, hostile).then((answer) => {
      check(`${route.name}: ${hostile.name}`, answer);
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
    });
    const done: Promise<void> = sent.finally(() => waiting.delete(done));
    waiting.add(done);
    if (waiting.size >= AT_ONCE) await Promise.race(waiting);
  }
  await Promise.all(waiting);
  for (const [name, { text, ends = false }] of Object.entries(HOSTILE_LENGTHS)) {
    const lines = Object.entries({ host: address.host, "content-type": "application/json", ...headersOf(route) });
    const head = `${route.method} ${path} HTTP/1.1\r\n${lines.map(([header, value]) => `${header}: ${value}\r\n`).join("")}`;
    const answer = await sendRaw(head + text, ends);
    check(`${route.name}: content-length ${name}`, answer);
    statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
  }
}

test("every route with a body refuses hostile bodies without keeping memory", LIMIT, async (t) => {
  const statuses = new Map<number, number>();
  // Warm-up: send everything once, so that compiled code and pools are not counted.
  for (const route of json_routes) await attack(route, new Map());
  const before = memory().now;
  resetPeak();
  for (let round = 0; round < ROUNDS; round += 1) for (const route of json_routes) await attack(route, statuses);
  const { now, peak } = memory();
  assert.equal(server.program.running, true);
  // Each log record is one line, whatever was sent.
  const records = server.program.output
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { level: string });
  assert.deepEqual(
    records.filter((line) => isAtLeast("error", line)),
    [],
  );
  const count = [...statuses.values()].reduce((sum, one) => sum + one, 0);
  t.diagnostic(`${mib(before)} MiB before, ${mib(now)} MiB after, ${mib(peak)} MiB at most`);
  assert.ok(peak - before < GROWTH_BYTES_MAX, `the server grew from ${mib(before)} MiB to ${mib(peak)} MiB`);
  const seen = [...statuses.keys()].toSorted((a, b) => a - b);
  provePromise(
    t,
    9,
    `${count} hostile bodies to ${json_routes.length} routes: answered ${seen.join(", ")} and nothing else; ` +
      `the server's memory grew by at most ${mib(peak - before)} MiB`,
  );
});

test("returns 413 after 1 MiB of an endless body, and disconnects a client that keeps sending", LIMIT, async (t) => {
  const socket = connect({ host: address.hostname, port: Number(address.port), allowHalfOpen: true });
  let answer = "";
  socket.setEncoding("utf8").on("data", (part: string) => (answer += part));
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.write(
    `POST /api/sites HTTP/1.1\r\nhost: ${address.host}\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`,
  );
  const before = memory().now;
  resetPeak();
  const began_at = performance.now();
  const chunk = `10000\r\n${" ".repeat(0x10000)}\r\n`;
  while (!socket.closed && performance.now() - began_at < ANSWER_MS_MAX) {
    if (!socket.write(chunk)) await setTimeout(5);
    else await setImmediate();
  }
  const lasted_ms = performance.now() - began_at;
  socket.destroy();
  assert.match(answer, /^HTTP\/1\.1 413 /);
  assert.ok(lasted_ms < ANSWER_MS_MAX, "never cut off");
  checkTime(t, "cut off", lasted_ms, ENDLESS_CLOSED_MS_MAX);
  const { peak } = memory();
  t.diagnostic(`${mib(before)} MiB before, ${mib(peak)} MiB at most`);
  assert.ok(peak - before < GROWTH_BYTES_MAX, `the server grew from ${mib(before)} MiB to ${mib(peak)} MiB`);
});
