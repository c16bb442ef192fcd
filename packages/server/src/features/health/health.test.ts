import assert from "node:assert/strict";
import { test } from "node:test";
import type { HealthBody } from "@roamfleet/protocol/link";
import type { HealthSnapshot } from "@roamfleet/protocol/routes";
import { parseMessage } from "../../link/inbound.ts";
import type { Session } from "../../link/index.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { healthRoutes, ingestHealth } from "./index.ts";
import { healthOf } from "./testing/health-of.ts";

const TIMEOUT = { timeout: 120_000 };

async function start() {
  const rig = await startFeaturePlane([healthRoutes]);
  const { org_id, token } = await rig.org({ role: "viewer" });
  const { robot_id } = await seedRobot(rig.plane, org_id);
  const session = { org_id, robot_id } as Session;
  return {
    rig,
    robot_id,
    take: (more: Partial<HealthBody>, ros?: { ros_unchanged: true }) =>
      ingestHealth(rig.plane, session, { type: "health", snapshot: healthOf(more), ...ros }),
    read: (as = token) =>
      rig.call<{ data: HealthSnapshot; error: { message: string } }>("GET", `/api/robots/${robot_id}/health`, { token: as }),
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
  };
}

test("returns 404 for a robot without a health snapshot and for a robot of another org", TIMEOUT, async () => {
  await using of = await start();
  const none = await of.read();
  assert.deepEqual([none.status, none.body.error.message.includes("health snapshot")], [404, true]);
  await of.take({});
  const other = await of.rig.org();
  const of_other_org = await of.read(other.token);
  assert.deepEqual([of_other_org.status, of_other_org.body.error.message.startsWith("robot ")], [404, true]);
});

test("returns the latest health snapshot with the time of its receipt", TIMEOUT, async () => {
  await using of = await start();
  await of.take({});
  await of.rig.clock.advance({ seconds: 15 });
  await of.take({ uptime_seconds: 115, status: "warn", at: "2029-12-31T23:00:00Z" });
  const { status, body } = await of.read();
  assert.equal(status, 200);
  const { data } = body;
  assert.deepEqual(data, {
    robot_id: of.robot_id,
    received_at: "2030-01-01T00:00:15.000Z",
    ...healthOf({ uptime_seconds: 115, status: "warn", at: "2029-12-31T23:00:00.000Z" }),
  });
});

test("keeps the ROS names of the last snapshot if the robot states that they did not change", TIMEOUT, async () => {
  await using of = await start();
  const unchanged = { ros_unchanged: true } as const;
  const ros = { distro: null, adapter: "dds", nodes: ["/a"], topics: ["/scan"] };
  const ros_adapters: HealthBody["ros_adapters"] = [{ name: "dds", state: "connected", distro: null }];
  await of.take({ uptime_seconds: 99 }, unchanged);
  assert.equal((await of.read()).body.data.ros, null);
  await of.take({ uptime_seconds: 100, ros, ros_adapters });
  await of.take({ uptime_seconds: 115, status: "warn" }, unchanged);
  const { data } = (await of.read()).body;
  assert.deepEqual([data.uptime_seconds, data.status, data.ros, data.ros_adapters], [115, "warn", ros, ros_adapters]);
  await of.take({ uptime_seconds: 130 });
  const { ros: none, ros_adapters: no_adapters } = (await of.read()).body.data;
  assert.deepEqual([none, no_adapters], [null, undefined]);
});

test("ignores an older health snapshot of the same boot unless a minute has passed", TIMEOUT, async () => {
  await using of = await start();
  const uptime = async () => (await of.read()).body.data.uptime_seconds;
  await of.take({ uptime_seconds: 100 });
  await of.rig.clock.advance({ seconds: 5 });
  await of.take({ uptime_seconds: 90 });
  assert.equal(await uptime(), 100);
  await of.take({ uptime_seconds: 3, boot_id: "boot-2" });
  assert.equal(await uptime(), 3);
  await of.rig.clock.advance({ seconds: 61 });
  await of.take({ uptime_seconds: 1, boot_id: "boot-2" });
  assert.equal(await uptime(), 1);
});

test("replaces characters that cannot be stored, and an invalid time by the time of receipt", TIMEOUT, async () => {
  await using of = await start();
  const bytes = JSON.stringify({ type: "health", snapshot: healthOf({ at: "yesterday", boot_id: "a\0b\ud800", metrics: { "x\0y": 1 } }) });
  const message = parseMessage(Buffer.from(bytes));
  assert.ok(message.type === "health");
  await of.take(message.snapshot);
  const { at, boot_id, metrics } = (await of.read()).body.data;
  assert.deepEqual([at, boot_id, metrics], ["2030-01-01T00:00:00.000Z", "a\ufffdb\ufffd", { "x\ufffdy": 1 }]);
});
