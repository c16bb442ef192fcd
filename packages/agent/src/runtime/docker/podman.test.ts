import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { temporaryDirectory } from "../../testing/agent-rig.ts";
import { registryRelease } from "../../testing/container-rig.ts";
import { DeploymentsRig } from "../../testing/deployments-rig.ts";
import { imageRelease, shellImage, STAYS_UP } from "../../testing/images.ts";
import { PodmanEngine, whyNoPodman } from "../../testing/podman-engine.ts";

const LIMIT = { timeout: 300_000, skip: whyNoPodman() };
/** Without CAP_SYS_RESOURCE podman's default limits are refused. */
const ulimits = { nofile: { soft: 1_024, hard: 1_024 }, nproc: { soft: 1_024, hard: 1_024 } };

test("podman applies, rolls back and replaces container releases like dockerd", LIMIT, async (t) => {
  await using engine = await PodmanEngine.start();
  const socket = path.join(temporaryDirectory(t), "agent.sock");
  await using rig = await DeploymentsRig.start({ config: { container_sockets: [engine.socket], local_api: { socket } } });
  const release = async (tag: string, script: string, manifest: Record<string, unknown> = {}) =>
    imageRelease(tag, await shellImage(`# ${tag}\n${script}`), { ulimits, ...manifest }, rig.server);
  const chatty = `echo one; echo two; test -S $ROAMFLEET_SOCKET && echo "a socket"; ls $ROAMFLEET_CONFIG_DIR; ${STAYS_UP}`;
  const first = await rig.ended(
    rig.deploy(await release("v1", chatty, { health: { log: { pattern: "^up v\\d$" } } }), { verify_seconds: 2 }),
  );
  assert.deepEqual([first.status, first.message], ["applied", undefined]);
  await until("its output", () => rig.logs.some(({ message }) => message === "up v1"));
  // Each line arrives once, although podman's log times are whole seconds.
  assert.deepEqual(
    rig.logs.filter(({ source }) => source === "main").map(({ message }) => message),
    ["one", "two", "a socket", "up v1"],
  );
  const sick = await rig.ended(rig.deploy(await release("v2", STAYS_UP, { health: { command: ["sh", "-c", "echo sick; exit 3"] } })));
  assert.deepEqual([sick.status, sick.reason, engine.running()], ["rolled_back", "health_check_failed", ["v1"]]);
  assert.match(sick.message ?? "", /exited with 3: sick/);
  const dying = await rig.ended(rig.deploy(await release("v3", "exit 7"), { verify_seconds: 50 }));
  assert.deepEqual([dying.status, dying.reason, engine.running()], ["rolled_back", "crash_loop", ["v1"]]);
  const beside = await rig.ended(rig.deploy(await release("v4", STAYS_UP, { replace: "beside" })));
  assert.equal(beside.status, "applied");
  await until("the old one to go", () => engine.running().join() === "v4");
  const missing = await rig.ended(rig.deploy(registryRelease("v5", `127.0.0.1:1/robots/app@sha256:${"0".repeat(64)}`)));
  assert.deepEqual([missing.status, missing.reason, engine.running()], ["failed", "download_failed", ["v4"]]);
});
