import assert from "node:assert/strict";
import { createCipheriv, createHash, randomUUID } from "node:crypto";
import { createReadStream, mkdtempSync, rmSync } from "node:fs";
import { open, readdir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { Client } from "@roamfleet/sdk";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { Proxy } from "../harness/proxy.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { MemoryWatch } from "../processes/memory.ts";
import { Program } from "../processes/process.ts";
import { ServerProcess } from "../processes/server-process.ts";

const MIB = 1024 * 1024;
const SIZE = promiseSize({ test: 192, full: 4_096 }) * MIB;
/** Slow enough that the upload is in progress at every kill. */
const BYTES_PER_SECOND = promiseSize({ test: 96, full: 160 }) * MIB;
/** Maximum bytes that `rf` sends in one request. A kill may cause at most this many bytes to be sent again. */
const PART = 32 * MIB;
/** Allowance for traffic other than the artifact: headers, the link and other requests. */
const OVERHEAD = 4 * MIB;
const RSS_GROWTH_MAX = 100 * MIB;
const RF_KILLS = [0.2, 0.35, 0.5];
const SERVER_KILL = 0.7;
const AGENT_KILLS = [0.3, 0.6];
const LIMIT = { timeout: promiseSize({ test: 180_000, full: 1_500_000 }) };
const STEP_MS = promiseSize({ test: 60_000, full: 600_000 });

/** Writes a file of reproducible pseudorandom bytes, which do not compress. Returns its digest. */
async function makeFile(file: string): Promise<string> {
  const bytes = createCipheriv("aes-128-ctr", Buffer.alloc(16, 4), Buffer.alloc(16));
  const zeros = Buffer.alloc(4 * MIB);
  const hash = createHash("sha256");
  await using handle = await open(file, "w");
  for (let at = 0; at < SIZE; at += zeros.length) {
    const chunk = bytes.update(zeros.subarray(0, Math.min(zeros.length, SIZE - at)));
    hash.update(chunk);
    await handle.write(chunk);
  }
  return hash.digest("hex");
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file, { highWaterMark: MIB })) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

const inMib = (bytes: number): string => `${(bytes / MIB).toFixed(1)} MiB`;
const waitFor = (what: string, look: () => boolean | Promise<boolean>): Promise<true> => until(what, look, { deadline_ms: STEP_MS });

const started = (program: Program): Promise<true> =>
  program.until("the first of its output", () => program.child.pid !== undefined && (true as const));

interface Push {
  server: ServerProcess;
  proxy: Proxy;
  token: string;
  file: string;
  memory: MemoryWatch;
}

/** Bytes of the upload that the server has written. */
async function arrived({ server }: Push): Promise<number> {
  const directory = path.join(server.data, "blobs", "uploads");
  let size = 0;
  for (const name of await readdir(directory, { recursive: true }).catch(() => []))
    size += await stat(path.join(directory, name)).then(
      (status) => (status.isFile() ? status.size : 0),
      () => 0,
    );
  return size;
}

/** Pushes with three kills of `rf` and one of the server; returns the release's id. */
async function push(it: Push): Promise<string> {
  const { server, proxy, token, file, memory } = it;
  const run = (): Program =>
    new Program("packages/cli/src/main.ts", ["releases", "push", file, "--kind", "file", "--tag", "big", "--json"], {
      ROAMFLEET_TOKEN: token,
      ROAMFLEET_BASE_URL: proxy.url,
      XDG_CONFIG_HOME: path.dirname(file),
    });
  for (const share of RF_KILLS) {
    const rf = run();
    await started(rf);
    memory.watch("rf", rf.child.pid);
    await waitFor(`${share} of the artifact to arrive`, async () => {
      assert.ok(rf.running, rf.output);
      return (await arrived(it)) > share * SIZE;
    });
    await rf.kill();
  }
  const last = run();
  await started(last);
  memory.watch("rf", last.child.pid);
  await waitFor("the server's turn to die", async () => {
    assert.ok(last.running, last.output);
    return (await arrived(it)) > SERVER_KILL * SIZE;
  });
  await server.program.kill();
  await server.restart();
  memory.watch("server", server.program.child.pid);
  assert.equal((await last.ended).code, 0, last.output);
  const { data } = JSON.parse(last.output.trim().split("\n").at(-1) ?? "") as { data: { id: string; artifact_state: string } };
  assert.equal(data.artifact_state, "stored");
  return data.id;
}

/** Installs with two kills of the agent; resolves when the deployment is applied. */
async function install(api: Client, robot: AgentProcess, release_id: string, memory: MemoryWatch): Promise<void> {
  const { items } = await api.listRobots({ query: { status: "online" } });
  const { id } = (
    await api.createDeployment({
      body: { release: release_id, robot_id: items[0]?.id, rollout: { verify_seconds: 1 } },
      idempotency_key: randomUUID(),
    })
  ).data;
  const part = async (): Promise<number> => {
    const names = await readdir(robot.state, { recursive: true }).catch(() => []);
    const name = names.find((one) => one.endsWith(".part"));
    return name === undefined
      ? 0
      : await stat(path.join(robot.state, name)).then(
          ({ size }) => size,
          () => 0,
        );
  };
  for (const share of AGENT_KILLS) {
    await waitFor(`${share} of the artifact to reach the robot`, async () => (await part()) > share * SIZE);
    await robot.program.kill();
    robot.restart();
    await robot.program.until("the agent to be back", () => robot.program.output.includes("link is up"));
    memory.watch("agent", robot.program.child.pid);
  }
  await waitFor("the deployment to end", async () => {
    const { status, reason } = (await api.getDeployment({ params: { id } })).data;
    assert.ok(!["failed", "rolled_back", "cancelled"].includes(status), `${status}: ${reason}\n${robot.program.output.slice(-2_000)}`);
    return status === "applied";
  });
}

test("a large transfer resumes almost without repeated bytes when rf, server or agent is killed", LIMIT, async (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-4gib-"));
  try {
    const file = path.join(directory, "artifact.bin");
    const sha256 = await makeFile(file);
    await using server = await ServerProcess.start({
      args: ["--limit", "token_requests_per_minute=1000000", "--limit", "token_burst=1000000"],
    });
    const { api, token } = await server.org("Large");
    await using to_server = await Proxy.start(() => server.url, { bytes_per_second: { up: BYTES_PER_SECOND } });
    await using to_robot = await Proxy.start(() => server.url, { bytes_per_second: { down: BYTES_PER_SECOND } });
    using memory = new MemoryWatch();
    memory.watch("server", server.program.child.pid);

    const release_id = await push({ server, proxy: to_server, token, file, memory });
    const sent = to_server.bytes.up;
    const push_kills = RF_KILLS.length + 1;
    assert.ok(sent >= SIZE && sent - SIZE <= push_kills * PART + OVERHEAD, `${inMib(sent)} were sent for ${inMib(SIZE)}`);
    assert.equal((await api.getRelease({ params: { id: release_id } })).data.artifact_sha256, sha256);

    const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
    const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
    const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
    await using robot = new AgentProcess({ url: to_robot.url, key: key ?? "", name: "cart-1" });
    await until("the robot to be online", async () => (await api.listRobots({ query: { status: "online" } })).items.length === 1);
    memory.watch("agent", robot.program.child.pid);
    const before = to_robot.bytes.down;
    await install(api, robot, release_id, memory);
    const fetched = to_robot.bytes.down - before;
    assert.ok(
      fetched >= SIZE && fetched - SIZE <= AGENT_KILLS.length * PART + OVERHEAD,
      `${inMib(fetched)} were fetched for ${inMib(SIZE)}`,
    );

    const names = await readdir(path.join(robot.state, "files"), { recursive: true });
    const placed = names[0];
    assert.ok(placed !== undefined, "no file is in its place");
    assert.equal(await digestOf(path.join(robot.state, "files", placed)), sha256);
    const growths = ["server", "agent"].map((name) => [name, memory.growth(name)] as const);
    for (const [name, growth] of growths) assert.ok(growth < RSS_GROWTH_MAX, `${name} grew by ${inMib(growth)}`);
    provePromise(
      t,
      11,
      `an artifact of ${inMib(SIZE)} through ${RF_KILLS.length} kills of rf, 1 of the server and ${AGENT_KILLS.length} of the agent: its digest is right; sent ${inMib(sent - SIZE)} beyond its size, fetched ${inMib(fetched - SIZE)} beyond it; memory grew by ${growths.map(([name, growth]) => `${inMib(growth)} (${name})`).join(" and ")}, rf had ${inMib(memory.most("rf"))} at most`,
    );
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
