import assert from "node:assert/strict";
import { deflateRawSync } from "node:zlib";
import { test } from "node:test";
import { encodeFrame, FrameType, LOG_CHANNEL } from "@roamfleet/protocol/link";
import { WebSocket } from "ws";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { startPlane } from "../harness/index.ts";
import { RawRobot } from "./raw-robot.ts";

const TIMEOUT = { timeout: 120_000 };
const LEVELS = 8_000;
const nested = (levels: number): string => `${'{"a":'.repeat(levels)}"\\u00e9"${"}".repeat(levels)}`;
const recordOf = (seq: number, fields = "{}"): string =>
  `{"seq":${seq},"at":"2030-01-01T00:00:0${seq}.000Z","level":"info","source":"nav","message":"record ${seq}","fields":${fields}}`;

test("replaces a log record that is nested too deeply, and delivers all other records", TIMEOUT, async () => {
  await using plane = await startPlane();
  const org = plane.default_org;
  const fleet_id = await org.fleet();
  const robot = await plane.enrollRobot({ online: false, fleet_id });
  const token = await org.token({ role: "viewer" });
  const raw = await RawRobot.connect(plane.url, robot);
  const follower = new WebSocket(`${plane.url.replace(/^http/, "ws")}/api/robots/${robot.id}/logs/ws`, {
    headers: { authorization: `Bearer ${token}` },
  });
  const followed: { seq: number; fields: unknown }[] = [];
  follower.on("message", (data: Buffer) => followed.push(JSON.parse(data.toString("utf8")) as never));
  await new Promise((resolve) => follower.once("open", resolve));
  const flush = `{"type":"logs","records":[${[recordOf(1), recordOf(2, nested(LEVELS)), recordOf(3, nested(64)), recordOf(4)].join(",")}]}`;
  // The flush is larger than a frame, so send it in several frames.
  const bytes = Buffer.from(flush);
  for (let at = 0; at < bytes.length; at += 60_000)
    await raw.frame(encodeFrame(FrameType.DATA, LOG_CHANNEL, bytes.subarray(at, at + 60_000), at + 60_000 < bytes.length ? 1 : 0));
  await plane.until("the records are acknowledged", () => raw.heard.some((said) => said.type === "log_ack" && said.seq === 4));
  await plane.until("the follower has them", () => followed.length === 4);
  const replaced = { fields_dropped: "nested deeper than 64 levels" };
  assert.deepEqual(followed[1]?.fields, replaced);
  const check = async (what: string, seqs: number[]): Promise<void> => {
    const of_robot = await org.api.listRobotLogs({ params: { id: robot.id } });
    const of_fleet = await org.api.listFleetLogs({ params: { id: fleet_id } });
    const exported = await plane.fetch(`${plane.url}/api/robots/${robot.id}/logs/export`, {
      headers: { authorization: `Bearer ${token}` },
    });
    assert.equal(exported.status, 200);
    const lines = (await exported.text()).trimEnd().split("\n");
    for (const list of [of_robot.items, of_fleet.items, lines.map((line) => JSON.parse(line) as { seq: number; fields: unknown })]) {
      assert.deepEqual(
        list.map(({ seq }) => seq),
        seqs,
        what,
      );
      assert.deepEqual(list.find(({ seq }) => seq === 2)?.fields, replaced, what);
    }
  };
  await check("a received flush", [1, 2, 3, 4]);
  assert.match(await plane.plane.metrics.registry.metrics(), /roamfleet_log_fields_replaced_total 1\n/);
  // A flush as stored by an earlier version.
  const stored = deflateRawSync(`[${[recordOf(1), recordOf(2, nested(LEVELS)), recordOf(4)].join(",")}]`);
  await plane.db.run(sql`update log_batch set codec = 'deflate', records = ${stored} where robot_id = ${robot.id}`);
  await check("a stored flush", [1, 2, 4]);
  follower.terminate();
  await raw.end();
});

test("readers of a log get one error record in place of a damaged stored batch", TIMEOUT, async () => {
  await using plane = await startPlane();
  const robot = await plane.enrollRobot({ online: false });
  const raw = await RawRobot.connect(plane.url, robot);
  for (const seq of [1, 2, 3]) {
    await raw.frame(encodeFrame(FrameType.DATA, LOG_CHANNEL, Buffer.from(`{"type":"logs","records":[${recordOf(seq)}]}`)));
    await plane.until("the record is acknowledged", () => raw.heard.some((said) => said.type === "log_ack" && said.seq === seq));
  }
  await plane.db.run(sql`update log_batch set records = '\\x00ff00ff'::bytea where robot_id = ${robot.id} and first_seq = 2`);
  const { items } = await plane.api.listRobotLogs({ params: { id: robot.id } });
  assert.deepEqual(
    items.map(({ message }) => message),
    ["record 1", "records are missing here: the stored data is damaged", "record 3"],
  );
  await raw.end();
});
