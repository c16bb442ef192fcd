import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { startPlane } from "../harness/index.ts";
import { isAtLeast } from "../harness/log-level.ts";
import { Http, untilTaken } from "../spec/http.ts";

const LIMIT = { timeout: 300_000 };
const AT_ONCE = 500;
const MAX_USES = 10;

test(`exactly ${MAX_USES} of ${AT_ONCE} concurrent robots enroll with a key for ${MAX_USES}; the others are refused`, LIMIT, async () => {
  // The default limits apply: robots with a valid key are not limited as guessers.
  await using plane = await startPlane();
  const fleet_id = await plane.fleet();
  const key = await plane.enrollmentKey({ fleet_id, max_uses: MAX_USES });
  const robots = Array.from({ length: AT_ONCE }, () => randomBytes(32).toString("base64"));
  const anonymous = new Http(plane, undefined);
  const enroll = (public_key: string) => untilTaken(() => anonymous.post("/agent/enroll", { key, public_key }));
  const replies = await Promise.all(robots.map(enroll));
  const [let_in, refused] = [replies.filter(({ status }) => status === 201), replies.filter(({ status }) => status !== 201)];
  assert.equal(let_in.length, MAX_USES);
  assert.deepEqual([...new Set(refused.map(({ refusal }) => refusal))], ["403 forbidden: the enrollment key is exhausted"]);
  assert.equal(refused.length, AT_ONCE - MAX_USES);
  assert.equal(new Set(let_in.map(({ data }) => data.robot_id)).size, MAX_USES);
  assert.equal((await plane.api.listRobots({ query: { fleet_id } })).items.length, MAX_USES);
  const [used] = (await plane.api.listEnrollmentKeys({ query: { fleet_id } })).items;
  assert.deepEqual([used?.uses, used?.status], [MAX_USES, "exhausted"]);
  assert.deepEqual(
    plane.logged.filter((line) => isAtLeast("error", line) && line["status"] !== 503),
    [],
  );

  // Enrolled robots may repeat their enrollment; refused ones stay refused.
  const again = await Promise.all(robots.map(enroll));
  assert.deepEqual(
    again.map(({ status }) => (status === 200 ? 201 : status)),
    replies.map(({ status }) => status),
  );
});

test("50 concurrent enrollments of one robot count as one use of the enrollment key", LIMIT, async () => {
  await using plane = await startPlane();
  const key = await plane.enrollmentKey({ max_uses: 2 });
  const public_key = randomBytes(32).toString("base64");
  const replies = await Promise.all(
    Array.from({ length: 50 }, () => untilTaken(() => new Http(plane, undefined).post("/agent/enroll", { key, public_key }))),
  );
  assert.equal(new Set(replies.map(({ data }) => data.robot_id)).size, 1);
  assert.equal(replies.filter(({ status }) => status === 201).length, 1);
  assert.equal((await plane.api.listEnrollmentKeys({})).items[0]?.uses, 1);
});
