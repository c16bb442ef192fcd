import assert from "node:assert/strict";
import { test } from "node:test";
import { APPS_MAX } from "@roamfleet/protocol/link";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { startPlane } from "../harness/index.ts";
import { RawRobot, controlFrame } from "./raw-robot.ts";

const TIMEOUT = { timeout: 120_000 };

test("a robot has at most 256 apps, whether reported or deployed", TIMEOUT, async () => {
  await using plane = await startPlane();
  const robot = await plane.enrollRobot({ online: false });
  const raw = await RawRobot.connect(plane.url, robot);
  const count = APPS_MAX + 40;
  for (let seq = 1; seq <= count; seq += 1)
    await raw.frame(
      controlFrame({
        type: "report",
        seq,
        at: "2030-01-01T00:00:00.000Z",
        body: { kind: "app", app: `app-${seq}`, release_id: null, previous_release_id: null, status: "running" },
      }),
    );
  await plane.until("the reports are acknowledged", () => raw.heard.some((said) => said.type === "ack" && said.seq === count));
  const rows = await plane.db.run(sql`update robot_app set attempt = attempt where robot_id = ${robot.id}`);
  assert.equal(rows, APPS_MAX);
  const release = await plane.release({ app: "one-more" });
  await assert.rejects(plane.deploy(release, { robot_id: robot.id }), /409|already has 256 apps/);
  const known = await plane.release({ app: "app-1" });
  await plane.deploy(known, { robot_id: robot.id });
  await raw.end();
});

test("an org can have releases of at most 256 apps", TIMEOUT, async () => {
  await using plane = await startPlane();
  const first = await plane.release({ app: "app-0" });
  await plane.db.run(sql`
    insert into release (org_id, id, tag, app, kind, artifact_sha256, artifact_size, artifact_state, created_at, updated_at)
    select org_id, 'rel_' || n, 'tag-' || n, 'app-' || n, kind, artifact_sha256, artifact_size, artifact_state, created_at, updated_at
    from release, generate_series(1, ${APPS_MAX - 1}::int) n where id = ${first.id}`);
  await assert.rejects(plane.release({ app: "one-more" }), /409|already have 256 apps/);
  await plane.release({ app: "app-7" });
});
