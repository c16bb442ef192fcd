import assert from "node:assert/strict";
import { test } from "node:test";
import type { ServerMessage } from "@roamfleet/protocol/link";
import { sql } from "../../../kernel/sql.ts";
import type { Session } from "../../../link/index.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { fakeSession, helloOf } from "../../testing/places.ts";
import { startReportRig } from "../testing/report-rig.ts";
import { DesiredStateResender } from "./push.ts";

const TIMEOUT = { timeout: 60_000 };

/** Starts three connected robots of this node that have not been sent their desired state. */
async function startUntold() {
  const sessions = new Map<string, Session>();
  const it = await startFeaturePlane([], { sessions });
  const { org_id, robot_ids } = await startReportRig(it, 3);
  const told: string[] = [];
  for (const id of robot_ids) {
    const session = fakeSession(`sess_${id}`, org_id, helloOf(id));
    sessions.set(id, { ...session, send: () => true });
  }
  const link = { ...it.plane.link, send: (id: string, { type }: ServerMessage) => told.push(`${type} ${robot_ids.indexOf(id)}`) > 0 };
  const untold = new DesiredStateResender({ ...it.plane, link });
  const observe = (robot: number) =>
    it.plane.db.run(sql`update robot_desired set observed_generation = generation where robot_id = ${robot_ids[robot] ?? ""}`);
  const bump = (robot: number) =>
    it.plane.db.run(sql`update robot_desired set generation = generation + 1 where robot_id = ${robot_ids[robot] ?? ""}`);
  const look = async () => {
    await untold.resend();
    return told.splice(0).toSorted();
  };
  return { it, robot_ids, sessions, untold, observe, bump, look, org_id };
}

test("resends the desired state once to a robot that has not reported it after two checks", TIMEOUT, async () => {
  const { it, observe, bump, look } = await startUntold();
  await using _ = it;
  await observe(0);
  assert.deepEqual(await look(), []);
  await observe(1);
  assert.deepEqual(await look(), ["desired 2"]);
  assert.deepEqual(await look(), []);
  // A newer generation needs two checks again.
  await bump(2);
  await bump(0);
  assert.deepEqual(await look(), []);
  await observe(2);
  assert.deepEqual(await look(), ["desired 0"]);
});

test("resends the desired state at the first check after a message gap on the bus", TIMEOUT, async () => {
  const { it, observe, untold, look } = await startUntold();
  await using _ = it;
  await observe(1);
  untold.hintsWereLost();
  assert.deepEqual(await look(), ["desired 0", "desired 2"]);
  assert.deepEqual(await look(), []);
});

test("does not resend to robots that are offline, on other nodes or up to date", TIMEOUT, async () => {
  const { it, robot_ids, sessions, untold, look, org_id } = await startUntold();
  await using _ = it;
  const [elsewhere = "", away = "", knows = ""] = robot_ids;
  await it.plane.db.run(sql`update robot set node_id = 'node_b' where id = ${elsewhere}`);
  sessions.delete(away);
  sessions.set(knows, fakeSession("sess_knows", org_id, helloOf(knows, { generation: 1_000 })));
  untold.hintsWereLost();
  assert.deepEqual(await look(), []);
});
