import assert from "node:assert/strict";
import { test } from "node:test";
import type { TimelineEntry } from "@roamfleet/protocol/routes";
import { SYSTEM } from "../../kernel/caller.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { BATCH_ROWS_MAX } from "../../kernel/retention.ts";
import { dropTimelineEntries, recordTimeline, recordTimelineMany, timelineRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
type Timeline = { items: TimelineEntry[]; next_cursor: string | null };

test("returns the latest 200 timeline entries, newest first, and a cursor for the rest", TIMEOUT, async () => {
  await using rig = await startFeaturePlane([timelineRoutes]);
  const { org_id, token } = await rig.org({ role: "viewer" });
  const { robot_id } = await seedRobot(rig.plane, org_id);
  const entry = (n: number) => ({
    org_id,
    robot_id,
    kind: n % 2 === 0 ? "robot.connected" : "robot.disconnected",
    actor: SYSTEM,
    summary: `entry ${n}`,
    data: { n },
  });
  await recordTimelineMany(
    rig.plane.db,
    rig.plane,
    Array.from({ length: 250 }, (_, n) => entry(n)),
  );

  const first = await rig.call<Timeline>("GET", `/api/robots/${robot_id}/timeline`, { token });
  assert.equal(first.status, 200);
  assert.deepEqual(
    first.body.items.map(({ data }) => data.n),
    Array.from({ length: 200 }, (_, i) => 249 - i),
  );
  const { id, ...newest } = first.body.items[0]!;
  assert.match(id, /^evt_[0-9a-z]{26}$/);
  assert.deepEqual(newest, {
    at: "2030-01-01T00:00:00.000Z",
    kind: "robot.disconnected",
    actor: SYSTEM,
    summary: "entry 249",
    data: { n: 249 },
  });

  await recordTimeline(rig.plane.db, rig.plane, entry(250));
  const rest = await rig.call<Timeline>("GET", `/api/robots/${robot_id}/timeline?cursor=${first.body.next_cursor}`, { token });
  assert.deepEqual(
    rest.body.items.map(({ data }) => data.n),
    Array.from({ length: 50 }, (_, i) => 49 - i),
  );
  assert.equal(rest.body.next_cursor, null);
});

test("filters a timeline by kind and by time, since inclusive and until exclusive", TIMEOUT, async () => {
  await using rig = await startFeaturePlane([timelineRoutes]);
  const { org_id, token } = await rig.org();
  const { robot_id } = await seedRobot(rig.plane, org_id);
  for (const kind of ["a.done", "b.done", "a.done"]) {
    await recordTimeline(rig.plane.db, rig.plane, { org_id, robot_id, kind, actor: SYSTEM, summary: kind });
    await rig.clock.advance({ minutes: 1 });
  }
  const times = async (query: string) =>
    (await rig.call<Timeline>("GET", `/api/robots/${robot_id}/timeline?${query}`, { token })).body.items.map(({ at }) => at.slice(11, 16));
  assert.deepEqual(await times("kind=a.done"), ["00:02", "00:00"]);
  assert.deepEqual(await times("since=2030-01-01T00:01:00Z"), ["00:02", "00:01"]);
  assert.deepEqual(await times("until=2030-01-01T00:01:00Z"), ["00:00"]);
  const { status, body } = await rig.call("GET", `/api/robots/${robot_id}/timeline?since=yesterday`, { token });
  assert.deepEqual([status, body.error.code], [400, "bad_request"]);
});

test("returns 404 for the timeline of another org's robot, and 400 for a cursor of another robot", TIMEOUT, async () => {
  await using rig = await startFeaturePlane([timelineRoutes]);
  const [mine, other] = [await rig.org(), await rig.org()];
  const { robot_id, ...place } = await seedRobot(rig.plane, mine.org_id);
  const second = await seedRobot(rig.plane, mine.org_id, place);
  assert.equal((await rig.call("GET", `/api/robots/${robot_id}/timeline`, { token: other.token })).status, 404);
  const records = [0, 1].map((n) => ({ org_id: mine.org_id, robot_id, kind: "x.y", actor: SYSTEM, summary: String(n) }));
  await recordTimelineMany(rig.plane.db, rig.plane, records);
  const { body } = await rig.call<Timeline>("GET", `/api/robots/${robot_id}/timeline?limit=1`, { token: mine.token });
  assert.equal(
    (await rig.call("GET", `/api/robots/${second.robot_id}/timeline?cursor=${body.next_cursor}`, { token: mine.token })).status,
    400,
  );
});

test("retention deletes only old timeline entries, in every org", TIMEOUT, async () => {
  await using rig = await startFeaturePlane([timelineRoutes]);
  const { plane, clock } = rig;
  const orgs = [await rig.org(), await rig.org()];
  const seeded = await Promise.all(orgs.map(async ({ org_id, token }) => ({ org_id, token, ...(await seedRobot(plane, org_id)) })));
  const record = async (summary: string, count: number): Promise<void> => {
    for (const { org_id, robot_id } of seeded) {
      const entry = { org_id, robot_id, kind: "robot.connected", actor: SYSTEM, summary, data: {} };
      await recordTimelineMany(
        plane.db,
        plane,
        Array.from({ length: count }, () => entry),
      );
    }
  };
  await record("old", BATCH_ROWS_MAX + 1);
  await clock.advance({ hours: 24 * 2 });
  const before = clock.now();
  await record("new", 1);
  await dropTimelineEntries(plane, before);
  for (const { robot_id, token } of seeded) {
    const { body } = await rig.call<Timeline>("GET", `/api/robots/${robot_id}/timeline`, { token });
    assert.deepEqual(
      body.items.map(({ summary }) => summary),
      ["new"],
    );
  }
});
