import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { seededRandom } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { startPlane } from "../harness/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { Ledger } from "./ledger.ts";
import { Scenario } from "./scenario.ts";

const DAMAGES = promiseSize({ test: 6, full: 200 });
const LIMIT = { timeout: promiseSize({ test: 300_000, full: 3_600_000 }) };
/**
 * State files of the agent, one kind for each way in which the agent writes files. The key is tested separately, because it cannot be
 * replaced.
 */
const FILES = [
  "deployments*.ndjson",
  "**/*journal*",
  "outbox/*.json*",
  "logs/*.jsonl",
  "identity/robot.json",
  "desired.json",
  "apps/*/placed.json",
];

const HOW = ["cut", "flip"] as const;
type How = (typeof HOW)[number];

/** Truncates the file at a random byte, or flips one bit. */
function damage(file: string, how: How, random: () => number): string {
  const { size } = statSync(file);
  const at = Math.floor(random() * size);
  if (how === "cut") truncateSync(file, at);
  else {
    const bytes = readFileSync(file);
    bytes[at] = bytes[at]! ^ (1 << Math.floor(random() * 8));
    writeFileSync(file, bytes);
  }
  return `${how} ${path.basename(file)} at ${at} of ${size}`;
}

test(`an agent with a truncated or corrupted state file restarts and deploys (${DAMAGES} cases)`, LIMIT, async (t) => {
  await using plane = await startPlane();
  const org = await plane.org();
  const scenario: Scenario = new Scenario(new Ledger(() => plane.url, org.admin_token), () => robot);
  const { key } = await scenario.prepare();
  await using robot = new AgentProcess({ url: plane.url, key, name: "cart" });
  await scenario.waitForRobot();
  await scenario.robotRound();
  await robot.program.kill();
  const random = seededRandom(19);
  const kept = mkdtempSync(path.join(tmpdir(), "roamfleet-torn-"));
  let said = 0;
  try {
    cpSync(robot.state, kept, { recursive: true, verbatimSymlinks: true });
    const files = [...new Set(FILES.flatMap((pattern) => globSync(pattern, { cwd: kept })))]
      .filter((file) => statSync(path.join(kept, file)).isFile() && statSync(path.join(kept, file)).size > 0 && !file.endsWith(".reserve"))
      .toSorted();
    assert.ok(files.length >= 6, files.join(" "));
    for (let n = 0; n < DAMAGES; n += 1) {
      // Retry the deletion, because the workload of the killed agent still writes to this directory.
      rmSync(robot.state, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
      cpSync(kept, robot.state, { recursive: true, verbatimSymlinks: true });
      const what = damage(path.join(robot.state, files[n % files.length]!), HOW[Math.floor(n / files.length) % HOW.length]!, random);
      robot.restart();
      await robot.program
        .until(
          `the robot to be online after ${what}`,
          async () => (await scenario.ledger.get(`/api/robots/${scenario.robot_id}`))["status"] === "online",
        )
        .catch((error: unknown) => {
          throw new Error(`after ${what}`, { cause: error });
        });
      assert.match(await scenario.runs(), /^(one|two)$/, what);
      if (/damage/.test(robot.program.output)) said += 1;
      const wanted = n % 2 === 0 ? "two" : "one";
      assert.equal(await scenario.deploy(wanted), "applied", what);
      assert.equal(await scenario.runs(), wanted, what);
      await robot.program.kill();
      await until(
        "the server to notice the disconnect",
        async () => (await scenario.ledger.get(`/api/robots/${scenario.robot_id}`))["status"] === "offline",
      );
    }
  } finally {
    rmSync(kept, { recursive: true, force: true });
  }
  provePromise(
    t,
    19,
    `agent's state files cut or one bit changed ${DAMAGES} times (${said} times it said so): it came back each time, ran one version, and the next deployment was applied`,
  );
});

test("an agent with a damaged identity key exits with an error instead of creating another key", LIMIT, async () => {
  await using plane = await startPlane();
  await using robot = new AgentProcess({ url: plane.url, key: await plane.enrollmentKey(), name: "cart" });
  await robot.program.until("the agent to enroll", () => robot.program.output.includes("agent started"));
  await robot.program.kill();
  truncateSync(path.join(robot.state, "identity/key.pem"), 20);
  robot.restart();
  const { code } = await robot.program.ended;
  assert.equal(code, 1);
  assert.match(robot.program.output, /key\.pem does not contain an Ed25519 key/);
});

test("a server starts without data loss after a crash left partial files behind", LIMIT, async () => {
  await using server = await ServerProcess.start();
  const { token } = await server.org("Torn");
  const ledger = new Ledger(() => server.url, token);
  const bytes = randomBytes(100_000);
  const scenario = new Scenario(ledger, () => {
    throw new Error("no robot");
  });
  const id = await scenario.push("kept", bytes, { kind: "file" });
  await server.program.kill();
  const node_id = readFileSync(path.join(server.data, "node-id"), "utf8");
  // Leftover files, like those of a server killed during an upload or during its first start.
  writeFileSync(path.join(server.data, "blobs/staging/1"), "half of an upload");
  writeFileSync(path.join(server.data, "node-id.tmp"), "node_");
  await server.restart();
  assert.equal(readFileSync(path.join(server.data, "node-id"), "utf8"), node_id);
  assert.deepEqual(globSync("blobs/staging/*", { cwd: server.data }), []);
  const again = await fetch(`${server.url}/api/releases/${id}/artifact`, { headers: { authorization: `Bearer ${token}` } });
  assert.equal(again.status, 200);
  assert.ok(Buffer.from(await again.arrayBuffer()).equals(bytes));
  // If the node ID is damaged, the server creates another one. The robots of the old node become offline when its lease expires.

  await server.program.kill();
  truncateSync(path.join(server.data, "node-id"), 7);
  await server.restart();
  assert.match(readFileSync(path.join(server.data, "node-id"), "utf8"), /^node_[0-9a-f]{16}\n$/);
  await ledger.post("/api/sites", { name: "Later" });
});
