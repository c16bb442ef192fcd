import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { createClient } from "@roamfleet/sdk";
import { SimulatedRobot } from "@roamfleet/swarm/testing";
import { NatsServer, SKIP_NATS } from "../../packages/server/src/engines/bus/testing/nats-server.ts";
import { ADMIN_TOKEN, startPlane } from "../harness/index.ts";
import { connected, secondNode } from "../harness/second-node.ts";

const OPTIONS = { skip: SKIP_NATS, timeout: 300_000 };
/** Number of messages: more than a node buffers while NATS is unreachable, so that later ones are lost. */
const MESSAGES = 10_001;

test("a node catches up on changes of other nodes whose messages were lost while NATS was unreachable", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using first = await startPlane({ nodes: 1, settings: { bus: nats.address() } });
  await using second = await secondNode(first);
  await connected(first, second);
  const of = async (where: typeof first.default_org) => {
    const robot = await where.enrollRobot({ online: false });
    first.swarm.url = second.url;
    await robot.connect();
    first.swarm.url = first.url;
    return robot;
  };
  const suspended_org = await first.org("Suspended");
  const updated = await of(first.default_org);
  const removed = await of(first.default_org);
  const replaced = await of(first.default_org);
  const suspended = await of(suspended_org);
  const stays = await of(first.default_org);
  const release = await first.release();
  await nats.kill();
  await until("both nodes to know", () => !first.plane.bus.connected && !second.plane.bus.connected);
  for (let n = 0; n < MESSAGES; n += 1) first.plane.bus.publish("rf.test.unheard", n);

  const { id } = await first.deploy(release, { robot_id: updated.id });
  await first.api.deleteRobot({ params: { id: removed.id } });
  const { key } = (await first.api.replaceRobot({ params: { id: replaced.id } })).data;
  assert.ok(key !== null);
  await SimulatedRobot.enroll(first.swarm, { key });
  const admin = createClient({ base_url: first.url, admin_token: ADMIN_TOKEN });
  await admin.suspendOrg({ params: { id: suspended_org.id } });
  await nats.restart();
  await connected(first, second);

  const isDispatched = () => updated.received.some(({ apps }) => Object.values(apps).some(({ deployment_id }) => deployment_id === id));
  await until("the robot to receive its deployment", isDispatched);
  for (const [what, robot] of Object.entries({ removed, replaced, suspended }))
    await until(`the link of the ${what} robot to end`, () => !robot.connected && second.plane.link.session(robot.id) === undefined);
  assert.equal(stays.connected, true);
  assert.ok(second.plane.link.session(stays.id));
});

test("a removed robot is disconnected even if the message to its node was lost", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using first = await startPlane({ nodes: 1, settings: { bus: nats.address() } });
  await using second = await secondNode(first);
  await connected(first, second);
  const robot = await first.enrollRobot({ online: false });
  first.swarm.url = second.url;
  await robot.connect();
  first.plane.bus.publish = () => {};
  await first.api.deleteRobot({ params: { id: robot.id } });
  await until("the robot's link to end", () => !robot.connected && second.plane.link.session(robot.id) === undefined);
});
