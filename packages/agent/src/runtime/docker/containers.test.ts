import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { DeploymentsRig, until } from "../../testing/deployments-rig.ts";
import { DockerEngine, whyNoDockerd } from "../../testing/docker-engine.ts";
import { imageRelease, shellImage, STAYS_UP } from "../../testing/images.ts";

const skip = whyNoDockerd();
const LIMIT = { timeout: 60_000, skip };

let engine: DockerEngine;
before(async () => {
  if (skip === undefined) engine = await DockerEngine.start();
});
after(async () => engine?.[Symbol.asyncDispose]());

const startRig = () => DeploymentsRig.start({ config: { container_sockets: [engine.socket] } });

/** Release tags of what runs for the rig. */
async function runningTags(rig: DeploymentsRig): Promise<string[]> {
  const all = await engine.containers();
  return all
    .filter(({ State, Labels }) => State === "running" && Labels["robofleet.state"] === rig.state)
    .map(({ Labels }) => Labels["robofleet.release"] ?? "");
}

test("a good image is applied, and a bad one is rolled back with the same old container running", LIMIT, async () => {
  await using rig = await startRig();
  const first = await rig.ended(rig.deploy(await imageRelease("v1", await shellImage(STAYS_UP), {}, rig.server)));
  assert.deepEqual([first.status, first.message], ["applied", undefined]);
  const [one] = await engine.containers();
  await until("its output in the log", () => rig.logs.some(({ message, source }) => message === "up v1" && source === "main"));
  const bad = await rig.ended(
    rig.deploy(
      await imageRelease("v2", await shellImage(STAYS_UP), { health: { command: ["sh", "-c", "echo sick; exit 3"] } }, rig.server),
    ),
  );
  assert.deepEqual([bad.status, bad.reason], ["rolled_back", "health_check_failed"]);
  assert.match(bad.message ?? "", /exited with 3: sick/);
  assert.deepEqual(await runningTags(rig), ["v1"]);
  assert.equal((await engine.containers()).find(({ State }) => State === "running")?.Id, one?.Id);
});
