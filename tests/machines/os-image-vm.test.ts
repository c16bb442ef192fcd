import assert from "node:assert/strict";
import { test } from "node:test";
import { RobotWithSlots, whyNoSlots } from "./robot-with-slots.ts";
import { MACHINES_FULL } from "./virtual-machine.ts";

const LIMIT = { timeout: 3_600_000, skip: MACHINES_FULL ? whyNoSlots() : "takes many minutes: npm run test:machines" };
/** The power is cut after this many sectors of 512 bytes have been written to the slot. */
const SECTORS_WRITTEN = 100_000;

test("a robot with two slots installs OS images with RAUC despite a power cut, and refuses or rolls back bad ones", LIMIT, async () => {
  await using slots = await RobotWithSlots.start();
  const { robot } = slots;
  const { machine } = robot;
  const outcome = async (id: string): Promise<string> => {
    const { status } = await robot.ended(id);
    const [target] = (await robot.api.listDeploymentTargets({ params: { id } })).items;
    return [status, target?.reason].filter(Boolean).join(" ");
  };
  assert.equal(await outcome(await robot.deploy(await robot.pushApp("counter"))), "applied");
  assert.equal(await slots.running(), "A factory");
  const { id } = await robot.robot();

  const app = await robot.app();
  const foreign = await robot.deploy(await slots.push("foreign", "none", "stranger"));
  assert.equal(await outcome(foreign), "failed rejected_by_robot");
  assert.match(await robot.reason(foreign), /signature verification failed/i);
  assert.equal(await robot.app(), app, "a refused image interrupted the app");

  const good = await robot.deploy(await slots.push("good"));
  await machine.until("RAUC to be in the middle of the image", async () => {
    const [written] = (await machine.sh("awk '{ print $7 }' /sys/block/vdb/stat")).split("\n");
    return Number(written) > SECTORS_WRITTEN;
  });
  assert.match(await machine.read("/var/lib/roamfleet-agent/os-image.json"), /"phase": "writing"/);
  await machine.cutPower();
  await machine.boot();
  assert.equal(await slots.running(), "A factory");
  assert.equal(await outcome(good), "applied");
  assert.equal(await slots.running(), "B good");
  assert.equal(await machine.sh("echo $(cat /data/boot/order /data/boot/good.B)"), "B A 1\n");
  assert.equal((await robot.robot()).id, id, "the new system has another identity");
  assert.equal(await robot.appRelease(), "counter");

  for (const [version, fault, expected] of [
    ["broken", "no_init", /started slot B again instead of A: image broken did not boot/],
    ["silent", "no_network", /the agent is not connected to the server/],
  ] as const) {
    const deployment = await robot.deploy(await slots.push(version, fault));
    assert.equal(await outcome(deployment), "rolled_back health_check_failed", version);
    assert.match(await robot.reason(deployment), expected);
    assert.equal(await slots.running(), "B good", version);
    assert.equal((await robot.robot()).status, "online");
  }

  const { items } = await robot.api.listRobotTimeline({ params: { id }, query: { limit: 200 } });
  const changes = items.toReversed().filter(({ kind }) => kind.startsWith("deployment."));
  const rolledBack = (tag: string): string[] => [
    `deployment.rolling_back: Release ${tag} rolling back to the previous version: health check failed`,
    `deployment.rolled_back: Release ${tag} rolled back: health check failed`,
  ];
  assert.deepEqual(
    changes.map(({ kind, summary }) => `${kind}: ${summary}`),
    [
      "deployment.dispatched: Installing counter",
      "deployment.applied: Release counter applied",
      "deployment.dispatched: Installing foreign",
      "deployment.failed: Release foreign failed: the robot refused the change",
      "deployment.dispatched: Installing good",
      "deployment.applied: Release good applied",
      "deployment.dispatched: Installing broken",
      ...rolledBack("broken"),
      "deployment.dispatched: Installing silent",
      ...rolledBack("silent"),
    ],
  );
});
