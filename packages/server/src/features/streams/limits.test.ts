import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { LIMIT_DEFAULTS } from "../../config.ts";
import { ingestLogs } from "../logs/index.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { fakeSession, helloOf } from "../testing/places.ts";
import { requireChannel } from "./robot-channel.ts";
import { flush, startRig, type TestViewer } from "./testing/rig.ts";

const TIMEOUT = { timeout: 120_000 };
type Rig = Awaited<ReturnType<typeof startRig>>;

const limit = ({ plane }: Rig, limits: Partial<typeof plane.settings.limits>): void => {
  plane.settings = { ...plane.settings, limits: { ...plane.settings.limits, ...limits } };
};

/** Adds a robot with one stored record, which every admitted viewer of its log gets. */
async function addRobot(it: Rig, org_id: string): Promise<string> {
  const { robot_id } = await seedRobot(it.plane, org_id);
  const session = fakeSession(`sess_${robot_id}`, org_id, helloOf(robot_id));
  it.sessions.set(robot_id, session);
  await ingestLogs(it.plane, session, flush(1, 1));
  return `/api/robots/${robot_id}`;
}

/** Opens a log stream. Returns the viewer, or the close reason if the stream is refused. */
async function follow(it: Rig, robot: string, token = it.token): Promise<TestViewer | string> {
  const viewer = it.view(`${robot}/logs/ws?token=${token}`);
  let refusal: string | undefined;
  void viewer.closed.then((how) => (refusal = how));
  await until("the record or the refusal", () => viewer.records.length > 0 || refusal !== undefined);
  return refusal ?? viewer;
}

/** Opens log streams until one is refused. Returns the open ones and the reason of the refusal. */
async function fill(it: Rig, robot: string): Promise<{ open: TestViewer[]; refusal: string }> {
  const open: TestViewer[] = [];
  for (;;) {
    const one = await follow(it, robot);
    if (typeof one === "string") return { open, refusal: one };
    open.push(one);
    assert.ok(open.length < 50, "nothing was refused");
  }
}

test("limits the streams per robot and per org, and reserves the last ones for shells", TIMEOUT, async () => {
  await using it = await startRig();
  limit(it, { followers_per_robot_max: 100, streams_per_robot_max: 5, streams_per_org_max: 8, streams_kept_for_shells: 2 });
  const [a, b] = [await addRobot(it, it.org_id), await addRobot(it, it.org_id)];
  const first = await fill(it, a);
  assert.deepEqual([first.open.length, first.refusal], [3, "4429 too many streams of this robot are open"]);
  // The robot has no real agent, so every shell fails: within the limits because no agent responds, above them because of the limit.
  const shell = `${a}/shell/ws?token=${it.token}`;
  assert.doesNotMatch(await it.view(shell).closed, /^4429/);

  const second = await fill(it, b);
  assert.deepEqual([second.open.length, second.refusal], [3, "4429 too many streams of this org are open"]);
  assert.doesNotMatch(await it.view(`${b}/shell/ws?token=${it.token}`).closed, /^4429/);
  limit(it, { streams_per_org_max: 6 });
  assert.equal(await it.view(shell).closed, "4429 too many streams of this org are open");

  // A viewer that leaves frees its stream.
  first.open[0]?.ws.close();
  second.open[0]?.ws.close();
  await Promise.all([first.open[0]?.closed, second.open[0]?.closed]);
  limit(it, { streams_per_org_max: 8 });
  const third = await fill(it, a);
  assert.deepEqual([third.open.length, third.refusal], [1, "4429 too many streams of this robot are open"]);
});

test("another org's streams do not count toward an org's limit", TIMEOUT, async () => {
  await using it = await startRig();
  limit(it, { streams_per_org_max: 3, streams_kept_for_shells: 0 });
  const mine = await fill(it, await addRobot(it, it.org_id));
  assert.equal(mine.open.length, 3);
  const other = await it.rig.org({ role: "operator" });
  assert.equal(typeof (await follow(it, await addRobot(it, other.org_id), other.token)), "object");
});

test("the last channels of a robot's link are reserved for shells", () => {
  const of = (channel_room: number) => ({ ...fakeSession("sess_1", "org_1", helloOf("rob_1")), channel_room });
  const limits = { ...LIMIT_DEFAULTS, streams_kept_for_shells: 8 };
  requireChannel(of(9), "camera", limits);
  assert.throws(() => requireChannel(of(8), "camera", limits), { code: 4429 });
  requireChannel(of(1), "shell", limits);
  assert.throws(() => requireChannel(of(0), "shell", limits), { code: 4429 });
});
