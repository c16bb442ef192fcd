import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { until } from "@roamfleet/clock/testing";
import type { AgentConfig } from "../config.ts";
import type { AppStatus } from "../contract.ts";
import { shellRelease, WELL } from "../testing/bundles.ts";
import { DeploymentsRig, desiredApp } from "../testing/deployments-rig.ts";
import { temporaryDirectory } from "../testing/agent-rig.ts";

const LIMIT = { timeout: 120_000 };

/** Starts a robot with a local socket, and builds the releases `one` and `two`. */
async function robotWithOne(t: TestContext, config: Partial<AgentConfig> = {}) {
  const rig = await DeploymentsRig.start({ config: { local_api: { socket: join(temporaryDirectory(t), "agent.sock") }, ...config } });
  const [one, two] = [await shellRelease("one", WELL), await shellRelease("two", WELL)];
  const status = (): AppStatus => rig.deployments.apps()[0] ?? assert.fail("no app");
  const permission = rig.local_interface?.permission ?? assert.fail("no permission");
  return { rig, one, two, status, permission };
}

test("installs a staged update only after the update lock is released", LIMIT, async (t) => {
  const { rig, one, two, status, permission } = await robotWithOne(t);
  await using _ = rig;
  await rig.ended(rig.deploy(one));
  const [pid] = rig.processes("main", "one");
  permission.takeLock({ owner: "docking", ttl_seconds: 600 });
  const target = rig.deploy(two);
  await until("being held", () => status().held !== null);
  assert.deepEqual(rig.statuses(target), ["downloading", "staged"]);
  assert.deepEqual(status().held, { by: "lock", why: "docking holds the update lock" });
  assert.equal(status().desired?.tag, "two");
  assert.deepEqual(rig.progress.filter(({ waiting_for }) => waiting_for === "robot").at(-1), {
    target_id: target,
    attempt: 1,
    bytes_done: two.bytes.length,
    bytes_total: two.bytes.length,
    waiting_for: "robot",
  });
  const told = rig.progress.length;
  rig.deployments.announce();
  assert.equal(rig.progress.length, told + 1, "reported again after each connect");
  assert.deepEqual(rig.processes("main", "one"), [pid], "what runs was not touched");
  permission.releaseLock("docking");
  assert.equal((await rig.ended(target)).status, "applied");
  assert.equal(status().held, null);
});

test("the update lock delays the removal of an app but not the cancellation of an update", LIMIT, async (t) => {
  const { rig, one, two, status, permission } = await robotWithOne(t);
  await using _ = rig;
  await rig.ended(rig.deploy(one));
  permission.takeLock({ owner: "docking", ttl_seconds: 600 });
  const target = rig.deploy(two);
  await until("being held", () => status().held !== null);
  rig.want({ main: desiredApp(one.release, null) });
  assert.equal((await rig.ended(target)).status, "cancelled");
  rig.want({ main: desiredApp(null, "tgt_none") });
  await until("being held again", () => status().held !== null);
  assert.equal(rig.processes("main", "one").length, 1);
  permission.releaseLock("docking");
  assert.equal((await rig.ended("tgt_none")).status, "rolled_back");
  assert.equal(rig.processes("main").length, 0);
});

test("a restarted agent still respects the update lock", LIMIT, async (t) => {
  const { rig, one, two, status, permission } = await robotWithOne(t);
  await using _ = rig;
  await rig.ended(rig.deploy(one));
  permission.takeLock({ owner: "docking", ttl_seconds: 600 });
  const target = rig.deploy(two);
  await until("being held", () => status().held !== null);
  await rig.local_interface?.stop();
  await rig.deployments.stop();
  await rig.boot();
  await until("being held after the restart", () => status().held !== null);
  assert.equal(status().current?.tag, "one");
  await until("release one to run again", () => rig.processes("main", "one").length === 1);
  rig.local_interface?.permission.releaseLock(undefined);
  assert.equal((await rig.ended(target)).status, "applied");
});

test("the update lock expires when its owner is killed", LIMIT, async (t) => {
  const { rig, one, two, status, permission } = await robotWithOne(t);
  await using _ = rig;
  await rig.ended(rig.deploy(one));
  const owner = spawn("sleep", ["60"]);
  t.after(() => owner.kill("SIGKILL"));
  await once(owner, "spawn");
  permission.takeLock({ owner: "docking", ttl_seconds: 600, pid: owner.pid ?? 0 });
  const target = rig.deploy(two);
  await until("being held", () => status().held !== null);
  owner.kill("SIGKILL");
  assert.equal((await rig.ended(target)).status, "applied");
  await until("the file to be gone", () => !existsSync(join(rig.state, "update.lock")));
});

test("retries the safe-to-update command until it succeeds and reports its output", LIMIT, async (t) => {
  const directory = temporaryDirectory(t);
  const busy = join(directory, "busy");
  const asked = join(directory, "asked");
  writeFileSync(busy, "");
  const command = `echo x >> ${asked}; if [ -e ${busy} ]; then echo "arm is moving"; exit 3; fi`;
  const { rig, one, status } = await robotWithOne(t, { safe_to_update: { command, timeout_ms: 60_000 } });
  await using _ = rig;
  const target = rig.deploy(one);
  await until("being held", () => status().held !== null);
  assert.deepEqual(status().held, { by: "gate", why: "the safe-to-update command exited with 3: arm is moving" });
  const times = (): number => readFileSync(asked, "utf8").length / 2;
  await until("being asked again", () => times() >= 2);
  assert.deepEqual(rig.statuses(target), ["downloading", "staged"]);
  rmSync(busy);
  assert.equal((await rig.ended(target)).status, "applied");
});

test("a safe-to-update command that hangs counts as unsafe and is killed at its timeout", LIMIT, async (t) => {
  const command = "echo thinking; sleep 1000";
  const { rig, one, status } = await robotWithOne(t, { safe_to_update: { command, timeout_ms: 300 } });
  await using _ = rig;
  rig.deploy(one);
  await until("being held", () => status().held !== null);
  assert.match(status().held?.why ?? "", /^the safe-to-update command did not end within 300 ms/);
  // The agent retries the command. On a busy machine, a run may be killed before its first output.
  const said = { by: "gate", why: "the safe-to-update command did not end within 300 ms: thinking" };
  await until("its words", () => isDeepStrictEqual(status().held, said));
});

test("installs an update only after the safe-to-update URL returns 200", LIMIT, async (t) => {
  let answer: [number, string] = [503, "battery at 12%"];
  const server = createServer((_, response) => response.writeHead(answer[0]).end(answer[1]));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/safe`;
  const { rig, one, status } = await robotWithOne(t, { safe_to_update: { url, timeout_ms: 60_000 } });
  await using _ = rig;
  const target = rig.deploy(one);
  await until("being held", () => status().held !== null);
  assert.deepEqual(status().held, { by: "gate", why: `${url} returned status 503: battery at 12%` });
  answer = [200, ""];
  assert.equal((await rig.ended(target)).status, "applied");
});
