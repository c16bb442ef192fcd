import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test } from "node:test";
import { startPlane } from "../harness/index.ts";
import { freshKey, untilTaken } from "./http.ts";
import { anonymous, httpOf, sharedPlane } from "./spec-plane.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();
const http = httpOf(plane);
const robot = await plane.enrollRobot();
const release = await plane.release({ tag: "one" });
const deployments = async () => (await http.get("/api/deployments")).items.length;

test("200 parallel requests with one Idempotency-Key create one deployment and get the same response", LIMIT, async () => {
  const before = await deployments();
  const key = freshKey();
  const replies = await Promise.all(
    Array.from({ length: 200 }, () => untilTaken(() => http.post("/api/deployments", { release: release.id, robot_id: robot.id }, key))),
  );
  assert.deepEqual([...new Set(replies.map(({ status }) => status))], [201]);
  assert.equal(new Set(replies.map(({ text }) => text)).size, 1);
  assert.equal(replies.filter(({ headers }) => headers.get("idempotency-replayed") === "true").length, 199);
  assert.equal(await deployments(), before + 1);
  const { items } = await http.get(`/api/deployments/${String(replies[0]?.data.id)}/events`);
  assert.equal(items.filter(({ kind }) => kind === "deployment.queued").length, 1);
});

test("an idempotency key accepts the same body with other field order, aliases and nulls", LIMIT, async () => {
  const key = freshKey();
  const first = await http.post("/api/deployments", { release: "one", robot_id: robot.id }, key);
  for (const body of [
    { robot_id: robot.id, release: "one" },
    { robot_id: robot.id, release_tag: "one", scheduled_at: null },
    { release_id: "one", robot_id: robot.id, fleet_id: null },
  ]) {
    const again = await http.post("/api/deployments", body, key);
    assert.deepEqual([again.status, again.text], [201, first.text], JSON.stringify(body));
  }
});

test("an idempotency key accepts the same body with an explicit default in place of an omitted field", LIMIT, async () => {
  const key = freshKey();
  const { data: site } = await http.post("/api/sites", { name: "Barn" });
  const first = await http.post("/api/fleets", { name: "Tractors", site_id: site.id }, key);
  const again = await http.post("/api/fleets", { name: "Tractors", site_id: site.id, follow: true }, key);
  assert.deepEqual([first.status, again.status, again.text], [201, 201, first.text]);
  assert.match((await http.post("/api/fleets", { name: "Tractors", site_id: site.id, follow: false }, key)).refusal, /^409 conflict/);
});

test("returns 409 and creates nothing if an idempotency key is reused with another body", LIMIT, async () => {
  const key = freshKey();
  await http.post("/api/deployments", { release: "one", robot_id: robot.id }, key);
  const before = await deployments();
  assert.match(
    (await http.post("/api/deployments", { release: "one", robot_id: robot.id, rollout: { verify_seconds: 5 } }, key)).refusal,
    /^409 conflict: .*Idempotency-Key/,
  );
  assert.equal(await deployments(), before);
});

test("an idempotency key can be reused for a corrected request after an error", LIMIT, async () => {
  const key = freshKey();
  assert.equal((await http.post("/api/deployments", { release: "none", robot_id: robot.id }, key)).status, 404);
  assert.equal((await http.post("/api/deployments", { release: "one" }, key)).status, 400);
  assert.equal((await http.post("/api/deployments", { release: "one", robot_id: robot.id }, key)).status, 201);
});

test("an idempotency key applies to one org and route, but to all tokens of the org", LIMIT, async () => {
  const key = freshKey();
  const site = await http.post("/api/sites", { name: "keyed" }, key);
  assert.equal((await http.post("/api/configs", { key: "keyed", value: 1 }, key)).status, 201);
  const other = await plane.org();
  assert.equal((await httpOf(plane, other.admin_token).post("/api/sites", { name: "keyed" }, key)).status, 201);
  const operator = httpOf(plane, await plane.token({ role: "operator" }));
  assert.equal((await operator.post("/api/sites", { name: "keyed" }, key)).text, site.text);
  const viewer = httpOf(plane, await plane.token({ role: "viewer" }));
  assert.equal((await viewer.post("/api/sites", { name: "keyed" }, key)).status, 403, "what a token may do is checked before the replay");
  assert.equal((await anonymous(plane).send("POST", "/api/sites", { body: { name: "keyed" }, headers: key })).status, 401);
});

test("accepts an idempotency key of 255 characters, and returns 400 for a longer or empty one", LIMIT, async () => {
  const send = (key: string) => http.post("/api/deployments", { release: "one", robot_id: robot.id }, { "idempotency-key": key });
  assert.equal((await send("k".repeat(255))).status, 201);
  assert.match((await send("k".repeat(256))).refusal, /^400 bad_request: .*Idempotency-Key.*255/);
  assert.match((await send("")).refusal, /^400 bad_request: .*Idempotency-Key/);
});

test("a replayed response contains null in place of a secret", LIMIT, async () => {
  const fleet_id = await plane.homeFleet();
  const { site_id } = (await plane.api.getFleet({ params: { id: fleet_id } })).data;
  const key = freshKey();
  const first = await http.post("/api/enrollment-keys", { site_id, fleet_id, label: "line" }, key);
  const again = await http.post("/api/enrollment-keys", { site_id, fleet_id, label: "line" }, key);
  assert.match(String(first.data.key), /^rf_enroll_/);
  assert.deepEqual(again.data, { ...first.data, key: null });
});

test("a replay returns the original response even if the object has changed since", LIMIT, async () => {
  const key = freshKey();
  const first = await http.post("/api/deployments", { release: "one", robot_id: robot.id }, key);
  await plane.until("its end", async () => (await http.get(`/api/deployments/${String(first.data.id)}`)).data.status === "applied");
  const again = await http.post("/api/deployments", { release: "one", robot_id: robot.id }, key);
  assert.equal(again.text, first.text);
  assert.equal(again.data.status, "queued");
});

test("an idempotency key expires after a day, except on routes that require one", LIMIT, async () => {
  await using timed = await startPlane({ at: "2030-01-01T00:00:00Z" });
  const own = httpOf(timed);
  const robot_id = (await timed.enrollRobot({ online: false })).id;
  const tag = (await timed.release({ bytes: "x" })).tag;
  const [site_key, deployment_key] = [freshKey(), freshKey()];
  const site = await own.post("/api/sites", { name: "day" }, site_key);
  const deployment = await own.post("/api/deployments", { release: tag, robot_id }, deployment_key);
  await timed.restart();
  assert.equal((await own.post("/api/sites", { name: "day" }, site_key)).text, site.text);
  assert.equal((await own.post("/api/deployments", { release: tag, robot_id }, deployment_key)).text, deployment.text);
  await timed.stop();
  await timed.advance({ hours: 25 });
  await timed.restart();
  assert.match(
    (await own.post("/api/sites", { name: "day" }, site_key)).refusal,
    /^409 conflict: .*day/,
    "the key is forgotten, so the name is taken",
  );
  assert.equal((await own.post("/api/deployments", { release: tag, robot_id }, deployment_key)).text, deployment.text);
});

test("pushing the same release again without an idempotency key returns the existing release", LIMIT, async () => {
  const body = { tag: "again", artifact_sha256: hash("sha256", "again"), artifact_size: 5, kind: "file" };
  const replies = await Promise.all(Array.from({ length: 10 }, () => http.post("/api/releases", body)));
  assert.equal(new Set(replies.map(({ data }) => data.id)).size, 1);
  assert.deepEqual(replies.map(({ status }) => status).toSorted(), [...Array.from({ length: 9 }, () => 200), 201]);
});
