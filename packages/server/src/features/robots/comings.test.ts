import assert from "node:assert/strict";
import { test } from "node:test";
import type { Robot, TimelineEntry } from "@roamfleet/protocol/routes";
import { sql } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { fakeSession, helloOf } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { timelineRoutes } from "../timeline/index.ts";
import { robotConnected, robotRoutes } from "./index.ts";

const TIMEOUT = { timeout: 120_000 };
const ROBOTS = 20;

test(
  "robots that connect at the same moment are online with their own data and timeline entries; a removed one is not",
  TIMEOUT,
  async () => {
    const it = await startFeaturePlane([robotRoutes, timelineRoutes]);
    await using _ = it;
    const { org_id, token } = await it.org();
    const first = await seedRobot(it.plane, org_id);
    const ids = [first.robot_id];
    for (let i = 1; i < ROBOTS; i += 1) ids.push((await seedRobot(it.plane, org_id, first)).robot_id);
    const [removed = "", ...others] = ids.toReversed();
    await it.plane.db.run(sql`update robot set decommissioned_at = ${it.clock.now()} where org_id = ${org_id} and id = ${removed}`);
    const sessions = ids.map((id, i) =>
      fakeSession(
        `sess_${i}`,
        org_id,
        helloOf(id, { agent_version: `1.${i}`, platform: { os: `os "${i}", {}`, arch: "x64", hostname: "h", kernel: "0" } }),
      ),
    );
    await Promise.all(sessions.map((session) => robotConnected(it.plane, session)));
    for (const [i, id] of ids.entries()) {
      const robot = (await it.call<{ data: Robot }>("GET", `/api/robots/${id}`, { token })).body.data;
      const { items } = (await it.call<{ items: TimelineEntry[] }>("GET", `/api/robots/${id}/timeline`, { token })).body;
      if (id === removed) {
        assert.deepEqual([items.length, sessions[i]?.closed?.code], [0, 4404]);
        continue;
      }
      assert.deepEqual([robot.status, robot.agent_version, robot.platform?.os], ["online", `1.${i}`, `os "${i}", {}`]);
      assert.deepEqual(
        items.map(({ kind, data }) => [kind, data.session_id]),
        [["robot.connected", `sess_${i}`]],
      );
    }
    assert.equal(others.length, ROBOTS - 1);
  },
);

test(
  "of several robots that connect at the same moment, only the one whose earlier run returned is recorded as a duplicate",
  TIMEOUT,
  async () => {
    const it = await startFeaturePlane([robotRoutes, timelineRoutes]);
    await using _ = it;
    const { org_id, token } = await it.org();
    const place = await seedRobot(it.plane, org_id);
    const ids = [place.robot_id, (await seedRobot(it.plane, org_id, place)).robot_id, (await seedRobot(it.plane, org_id, place)).robot_id];
    const come = (runs: readonly string[], round: number) =>
      Promise.all(
        ids.map((id, i) => robotConnected(it.plane, fakeSession(`sess_${round}_${i}`, org_id, helloOf(id, { run_id: runs[i] ?? "run" })))),
      );
    await come(["a", "a", "a"], 1);
    await come(["b", "b", "a"], 2);
    await come(["a", "c", "a"], 3);
    const told = await Promise.all(
      ids.map(async (id) => {
        const { items } = (await it.call<{ items: TimelineEntry[] }>("GET", `/api/robots/${id}/timeline`, { token })).body;
        return items.filter(({ kind }) => kind === "robot.duplicate_identity").length;
      }),
    );
    assert.deepEqual(told, [2, 0, 0]);
  },
);
