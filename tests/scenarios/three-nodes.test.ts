import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isTerminal } from "@roamfleet/protocol";
import { SKIP_NATS } from "../../packages/server/src/engines/bus/testing/nats-server.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { OpenStream } from "../harness/open-stream.ts";
import { RobotSurroundings } from "../harness/robot-surroundings.ts";

const LIMIT = { skip: SKIP_NATS, timeout: 300_000 };
const NODES = 3;
const ROBOTS = 9;

// The harness sends each request, and each robot's connection, to the next node in turn.
let plane: Harness;
let fleet_id = "";

before(async () => {
  if (LIMIT.skip !== false) return;
  plane = await startPlane({ nodes: NODES });
  fleet_id = await plane.fleet();
  await plane.enrollRobots(ROBOTS, { fleet_id });
});

after(async () => {
  await plane?.[Symbol.asyncDispose]();
});

const ended = (id: string): Promise<string> =>
  plane.until(`deployment ${id} to end`, async () => {
    const { status } = await plane.deployment(id);
    return isTerminal(status) && status;
  });

test("robots are distributed over all nodes, and each node lists all of them", LIMIT, async () => {
  const held = plane.nodes.map((node) => node.plane.link.count);
  assert.ok(Math.min(...held) > 0, `links by node: ${held.join(", ")}`);
  for (const { url } of plane.nodes) {
    const answer = await fetch(`${url}/api/robots?status=online&fleet_id=${fleet_id}`, {
      headers: { authorization: `Bearer ${plane.default_org.admin_token}` },
    });
    assert.equal(((await answer.json()) as { items: unknown[] }).items.length, ROBOTS);
  }
});

test("a release and a config are deployed to the robots of every node, and rolled back", LIMIT, async () => {
  const [first, second] = [await plane.release({ app: "main" }), await plane.release({ app: "main" })];
  const tags = async (): Promise<Set<string | undefined>> => {
    const { items } = await plane.api.listRobots({ query: { fleet_id, status: "online" } });
    return new Set(items.map(({ current_release }) => current_release?.tag));
  };
  const quick = { verify_seconds: 1 };
  const rollout = { ...quick, waves: [{ percent: 34 }, { percent: 100 }] };
  const before_it = await plane.deploy(first, { fleet_id }, { rollout: quick });
  assert.equal(await ended(before_it.id), "applied");
  const { id } = await plane.deploy(second, { fleet_id }, { rollout });
  assert.equal(await ended(id), "applied");
  assert.deepEqual(await tags(), new Set([second.tag]));

  await plane.api.setConfig({ body: { key: "speed", value: 3, namespace: "drive", scope: "org" } });
  const config = await plane.deployConfig({ fleet_id }, { namespace: "drive" });
  await plane.until("the configuration on every robot", async () => {
    const { status } = (await plane.api.getConfigDeployment({ params: { id: config.id } })).data;
    return status === "applied";
  });

  // The deployment does not end while one robot is offline.
  await plane.enrollRobots(1, { fleet_id, online: false });
  const { id: third } = await plane.deploy(first, { fleet_id }, { rollout: quick });
  await plane.until("it to be under way", async () => (await plane.events(third, { targets: true })).includes("target.dispatched"));
  await plane.api.rollBackDeployment({ params: { id: third } });
  assert.equal(await ended(third), "rolled_back");
  await plane.until("what ran before", async () => {
    const found = await tags();
    return found.size === 1 && found.has(second.tag);
  });
});

test("viewers on every node can use a robot's shell, logs and files", LIMIT, async (t) => {
  const around = await RobotSurroundings.start(t);
  await using robot = await LiveRobot.start(plane, { robot: around.robot });
  const query = { token: plane.default_org.admin_token };
  for (const name of ["logs", "shell", "files"] as const) {
    const streams = await Promise.all(plane.nodes.map(({ url }) => OpenStream.open(url, name, robot.id, around, { query })));
    await Promise.all(streams.map((stream) => stream.round()));
    await Promise.all(streams.map((stream) => stream.end()));
  }
});
