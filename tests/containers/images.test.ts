import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { containersOf, runningTags, SKIP, useEngine } from "../../packages/agent/src/testing/container-rig.ts";
import { dockerArchive, ociArchive, shellImage, STAYS_UP, tarOf } from "../../packages/agent/src/testing/images.ts";
import { ContainerFleet, pushImage } from "./real-robot.ts";

const LIMIT = { timeout: 300_000, skip: SKIP };
const engine = useEngine();

test("deploys container images to a robot, downloads only new layers, and rolls back bad images", LIMIT, async (t) => {
  await using fleet = await ContainerFleet.start(engine());
  const { api, robot, robot_id } = fleet;
  const tags = () => runningTags(engine(), robot.state);
  const map = await tarOf([{ name: "map", content: Buffer.alloc(3_000_000, 7) }]);
  const first = await dockerArchive(await shellImage(STAYS_UP, [map]));
  const second = await ociArchive(await shellImage(`# second\n${STAYS_UP}`, [map]));

  const good = await fleet.deploy(await pushImage(api, "v1", first));
  assert.deepEqual([good.status, good.reason], ["applied", null]);
  assert.deepEqual(await tags(), ["v1"]);
  await until("its output in the robot's log", async () => {
    const { items } = await api.listRobotLogs({ params: { id: robot_id } });
    return items.some(({ source, message }) => source === "main" && message === "up v1");
  });

  const shared = await fleet.deploy(await pushImage(api, "v2", second));
  assert.deepEqual([shared.status, await tags()], ["applied", ["v2"]]);
  const { bytes_done = 0, bytes_total } = shared.progress ?? {};
  assert.equal(bytes_done, bytes_total);
  assert.ok(bytes_done > 0 && bytes_done < 10_000, `${bytes_done} bytes`);
  t.diagnostic(`the second image fetched ${bytes_done} of its ${second.length} bytes`);

  const container = (await containersOf(engine(), robot.state)).find(({ state }) => state === "running")?.id;
  const verify_seconds = 4;
  const sick = await dockerArchive(await shellImage(`# sick\n${STAYS_UP}`, [map]));
  const bad = await pushImage(api, "v3", sick, { health: { command: ["sh", "-c", "echo the arm is cold; exit 1"] } });
  const began = performance.now();
  const rolled_back = await fleet.deploy(bad, verify_seconds);
  t.diagnostic(`rolled back ${Math.round(performance.now() - began)} ms after it was asked for, with ${verify_seconds} s to verify`);
  assert.deepEqual([rolled_back.status, rolled_back.reason], ["rolled_back", "health_check_failed"]);
  await until("the robot to say why", async () => /exited with 1: the arm is cold; release v2 runs again/.test(await fleet.log()));
  assert.deepEqual(await tags(), ["v2"]);

  // The failure is reported long before the verification time is over.
  const dying = await pushImage(api, "v4", await dockerArchive(await shellImage("echo cannot go on; exit 7")));
  const crashed = await fleet.deploy(dying, 600);
  assert.deepEqual([crashed.status, crashed.reason], ["rolled_back", "crash_loop"]);
  assert.equal((await containersOf(engine(), robot.state)).find(({ state }) => state === "running")?.id, container);
  await until("the robot to say what it runs", async () => {
    const { data } = await api.getRobot({ params: { id: robot_id } });
    return data.apps[0]?.current?.tag === "v2";
  });
});

test("an agent killed while it verifies a new image resumes and leaves one container running", LIMIT, async () => {
  await using fleet = await ContainerFleet.start(engine());
  const { api, robot } = fleet;
  await fleet.deploy(await pushImage(api, "v1", await dockerArchive(await shellImage(STAYS_UP))));
  const id = await fleet.start(await pushImage(api, "v2", await dockerArchive(await shellImage(`# 2\n${STAYS_UP}`))), 5);
  await until("it to be verified", async () => (await api.listDeploymentTargets({ params: { id } })).items[0]?.status === "verifying");
  await robot.program.kill();
  assert.deepEqual(await runningTags(engine(), robot.state), ["v2"]);
  robot.restart();
  assert.equal((await fleet.ended(id)).status, "applied");
  await until("the old container to go", async () => (await containersOf(engine(), robot.state)).length === 1);
  assert.deepEqual(await runningTags(engine(), robot.state), ["v2"]);
});
