import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { ADMIN_TOKEN } from "../harness/index.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { freshKey } from "./http.ts";
import { anonymous, httpOf, realRobot, sharedPlane } from "./spec-plane.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();
const http = httpOf(plane);
const robot = await realRobot(plane);
const release_id = await pushBundle(plane.api, "arm-1.0.0", await appBundle());
const SHA256 = hash("sha256", "some bytes");

const ended = (id: string) =>
  plane.until("the deployment to end", async () => (await http.get(`/api/deployments/${id}`)).data.finished_at !== null);

test("GET /openapi.json describes every route except live streams, without a token", LIMIT, async () => {
  const reply = await anonymous(plane).get("/openapi.json");
  assert.equal(reply.status, 200);
  const { openapi, paths } = reply.body as { openapi: string; paths: Record<string, unknown> };
  assert.match(openapi, /^3\.1\./);
  for (const path of [
    "/api/robots",
    "/api/robots/{id}/health",
    "/api/deployments",
    "/api/configs/deployments/{id}/events",
    "/api/enrollment-keys/{id}/revoke",
  ]) {
    assert.ok(path in paths, path);
  }
  assert.deepEqual(
    Object.keys(paths).filter((path) => /\/ws$|topics\/echo/.test(path)),
    [],
  );
});

test("GET /docs is an interactive page that loads nothing from other servers", LIMIT, async () => {
  const reply = await anonymous(plane).get("/docs");
  assert.equal(reply.status, 200);
  assert.match(reply.headers.get("content-type") ?? "", /^text\/html/);
  assert.match(reply.text, /<html/i);
  const outside = [...reply.text.matchAll(/(?:src|href)="([^"]+)"/g)]
    .map(([, link]) => link ?? "")
    .filter((link) => /^(https?:)?\/\//.test(link));
  assert.deepEqual(outside, []);
});

test("GET /api/robots lists only the robots of the org", LIMIT, async () => {
  const [found] = (await http.get(`/api/robots?fleet_id=${robot.fleet_id}`)).items;
  assert.equal(found?.id, robot.id);
  assert.equal(found?.status, "online");
  assert.deepEqual(found?.labels, { line: "3" });
  const other = await plane.org();
  assert.deepEqual((await httpOf(plane, other.admin_token).get("/api/robots")).items, []);
});

test("GET /api/robots/{id}/health returns the latest snapshot of the robot", LIMIT, async () => {
  const snapshot = await plane.until("a snapshot", async () => {
    const reply = await http.get(`/api/robots/${robot.id}/health`);
    return reply.status === 200 ? reply.data : undefined;
  });
  assert.equal(snapshot.robot_id, robot.id);
  const memory = snapshot.memory as { used_bytes: number; total_bytes: number };
  assert.ok(memory.used_bytes > 0 && memory.used_bytes <= memory.total_bytes);
  // A robot sends a snapshot when something has changed, such as its apps.
  const health_release = await pushBundle(plane.api, "arm-0.9.0", await appBundle());
  const { data: deployment } = await http.post(
    "/api/deployments",
    { release: health_release, robot_id: robot.id, rollout: { verify_seconds: 0 } },
    freshKey(),
  );
  const later = await plane.until("a newer snapshot", async () => {
    const { data } = await http.get(`/api/robots/${robot.id}/health`);
    return data.at !== snapshot.at && data;
  });
  assert.ok(String(later.at) > String(snapshot.at));
  await ended(String(deployment.id));
});

test("GET /api/robots/{id}/logs returns the latest log records, oldest first", LIMIT, async () => {
  const items = await plane.until("log records", async () => {
    const reply = await http.get(`/api/robots/${robot.id}/logs`);
    return reply.items.length > 1 && reply.items;
  });
  assert.ok(items.length <= 200);
  const seqs = items.map(({ seq }) => Number(seq));
  assert.deepEqual(
    seqs,
    seqs.toSorted((a, b) => a - b),
  );
  assert.ok(items.every(({ robot_id, message }) => robot_id === robot.id && typeof message === "string"));
});

test("GET /api/robots/{id}/timeline lists connections, deployments and configs, newest first", LIMIT, async () => {
  const { data } = await http.post(
    "/api/deployments",
    { release: release_id, robot_id: robot.id, rollout: { verify_seconds: 0 } },
    freshKey(),
  );
  await ended(String(data.id));
  const config = await http.post("/api/configs/deployments", { robot_id: robot.id }, freshKey());
  await plane.until(
    "the config deployment to end",
    async () => (await http.get(`/api/configs/deployments/${String(config.data.id)}`)).data.finished_at !== null,
  );
  const { items } = await http.get(`/api/robots/${robot.id}/timeline`);
  const kinds = items.map(({ kind }) => String(kind));
  for (const kind of ["robot.enrolled", "robot.connected", "deployment.applied", "config.applied"])
    assert.ok(kinds.includes(kind), `${kind} is in ${kinds.join(" ")}`);
  const times = items.map(({ at }) => String(at));
  assert.deepEqual(times, times.toSorted().toReversed());
});

test("GET /api/releases lists releases, newest first", LIMIT, async () => {
  const second = await plane.release({ tag: "listed-2" });
  const ids = (await http.get("/api/releases")).items.map(({ id }) => id);
  assert.ok(ids.indexOf(second.id) < ids.indexOf(release_id), "the newer one stands before the older one");
});

test("POST /api/releases takes digest, size, tag, notes and kind, and returns the release", LIMIT, async () => {
  const body = { tag: "made-1", notes: "first", kind: "app_bundle", artifact_sha256: SHA256, artifact_size: 10 };
  const reply = await http.post("/api/releases", body);
  assert.equal(reply.status, 201);
  assert.equal(reply.headers.get("location"), `/api/releases/${String(reply.data.id)}`);
  assert.deepEqual({ ...reply.data, ...body }, reply.data);
  assert.equal(reply.data.artifact_state, "awaiting_upload");
  const again = await http.post("/api/releases", body);
  assert.deepEqual([again.status, again.data.id], [200, reply.data.id]);
  const other = await http.post("/api/releases", { ...body, artifact_size: 11 });
  assert.match(other.refusal, /^409 conflict: .*made-1/);
});

test("POST /api/deployments takes release and target, and requires Idempotency-Key", LIMIT, async () => {
  const body = { release: "arm-1.0.0", robot_id: robot.id };
  assert.match((await http.post("/api/deployments", body)).refusal, /^400 bad_request: .*Idempotency-Key/);
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
  const held = await http.post("/api/deployments", { ...body, scheduled_at: tomorrow }, freshKey());
  assert.deepEqual([held.status, held.data.status, held.data.scheduled_at, held.data.started_at], [201, "scheduled", tomorrow, null]);
  const now = await http.post("/api/deployments", body, freshKey());
  assert.equal(now.status, 201);
  assert.equal(now.headers.get("location"), `/api/deployments/${String(now.data.id)}`);
  assert.deepEqual(
    [now.data.target_kind, now.data.robot_id, now.data.fleet_id, now.data.release_id],
    ["robot", robot.id, null, release_id],
  );
  const fleet = await http.post(
    "/api/deployments",
    { release: release_id, fleet_id: robot.fleet_id, rollout: { verify_seconds: 0 } },
    freshKey(),
  );
  assert.deepEqual([fleet.data.target_kind, fleet.data.robot_id, fleet.data.fleet_id], ["fleet", null, robot.fleet_id]);
  await ended(String(fleet.data.id));
});

test("GET /api/deployments/{id}/events lists the events of a deployment up to its final status", LIMIT, async () => {
  const { data } = await http.post(
    "/api/deployments",
    { release: release_id, robot_id: robot.id, rollout: { verify_seconds: 0 } },
    freshKey(),
  );
  await ended(String(data.id));
  const { items } = await http.get(`/api/deployments/${String(data.id)}/events`);
  assert.equal(items[0]?.kind, "deployment.queued");
  assert.deepEqual([items.at(-1)?.kind, items.at(-1)?.status], ["deployment.applied", "applied"]);
  assert.ok(items.every(({ target_status }) => target_status === null));
});

test("GET /api/configs and POST /api/configs set and list a value of any JSON type", LIMIT, async () => {
  for (const value of [1.5, "text", true, null, ["a", { b: [] }], { deep: { er: 0 } }]) {
    const reply = await http.post("/api/configs", { key: "any", value });
    assert.ok(reply.status === 201 || reply.status === 200);
    assert.deepEqual(reply.data.value, value);
    const listed = (await http.get("/api/configs")).items.find(({ id }) => id === reply.data.id);
    assert.deepEqual([listed?.value, listed?.namespace, listed?.version], [value, "default", reply.data.version]);
  }
});

test("POST /api/configs stores the same key in another namespace as a separate entry", LIMIT, async () => {
  const first = await http.post("/api/configs", { key: "speed", value: 1 });
  const second = await http.post("/api/configs", { key: "speed", value: 2, namespace: "navigation" });
  assert.deepEqual([first.status, second.status], [201, 201]);
  assert.notEqual(first.data.id, second.data.id);
  const third = await http.post("/api/configs", { key: "speed", value: 3, namespace: "navigation" });
  assert.deepEqual([third.status, third.data.id, third.data.version], [200, second.data.id, 2]);
});

test(
  "GET /api/configs/deployments and POST /api/configs/deployments deploy to a robot or a fleet, and list the deployments",
  LIMIT,
  async () => {
    assert.match((await http.post("/api/configs/deployments", { robot_id: robot.id })).refusal, /^400 bad_request: .*Idempotency-Key/);
    const one = await http.post("/api/configs/deployments", { robot_id: robot.id }, freshKey());
    const all = await http.post("/api/configs/deployments", { fleet_id: robot.fleet_id, namespace: "navigation" }, freshKey());
    assert.deepEqual([one.status, one.data.target_kind, one.data.namespace], [201, "robot", null]);
    assert.deepEqual([all.status, all.data.target_kind, all.data.namespace], [201, "fleet", "navigation"]);
    const listed = (await http.get("/api/configs/deployments")).items.map(({ id }) => id);
    assert.ok(listed.includes(one.data.id) && listed.includes(all.data.id));
  },
);

test("POST /api/configs/deployments writes the values to the robot's disk", LIMIT, async () => {
  const { id } = (
    await http.post("/api/configs", { key: "gripper", value: { force: 5 }, namespace: "arm", scope: "robot", scope_id: robot.id })
  ).data;
  assert.match(String(id), /^cfg_/);
  const { data } = await http.post("/api/configs/deployments", { robot_id: robot.id, namespace: "arm" }, freshKey());
  await plane.until(
    "the config to be applied",
    async () => (await http.get(`/api/configs/deployments/${String(data.id)}`)).data.status === "applied",
  );
  assert.deepEqual(JSON.parse(await readFile(`${robot.agent.state}/configs/arm.json`, "utf8")), { gripper: { force: 5 } });
});

test("GET /api/configs/deployments/{id}/events lists the events of a config deployment", LIMIT, async () => {
  const { data } = await http.post("/api/configs/deployments", { robot_id: robot.id }, freshKey());
  await plane.until("its end", async () => (await http.get(`/api/configs/deployments/${String(data.id)}`)).data.finished_at !== null);
  const { items } = await http.get(`/api/configs/deployments/${String(data.id)}/events`);
  assert.equal(items.at(-1)?.status, "applied");
  assert.match((await http.get(`/api/deployments/${String(data.id)}/events`)).refusal, /^404 not_found/);
});

test("GET /api/sites and POST /api/sites list and create sites", LIMIT, async () => {
  const made = await http.post("/api/sites", { name: "Zürich 東京" });
  assert.equal(made.status, 201);
  assert.equal(made.data.name, "Zürich 東京");
  assert.ok((await http.get("/api/sites")).items.some(({ id }) => id === made.data.id));
});

test("POST /api/sites refuses an existing name", LIMIT, async () => {
  await http.post("/api/sites", { name: "Taken" });
  assert.match((await http.post("/api/sites", { name: "Taken" })).refusal, /^409 conflict: .*Taken/);
});

test("GET /api/fleets and POST /api/fleets list and create fleets at a site", LIMIT, async () => {
  const made = await http.post("/api/fleets", { name: "Kiosks", site_id: robot.site_id });
  assert.deepEqual([made.status, made.data.name, made.data.site_id], [201, "Kiosks", robot.site_id]);
  assert.ok((await http.get("/api/fleets")).items.some(({ id, site_id }) => id === made.data.id && site_id === robot.site_id));
});

test("POST /api/fleets requires an existing site", LIMIT, async () => {
  assert.match((await http.post("/api/fleets", { name: "Lost" })).refusal, /^400 bad_request: .*site_id/);
  assert.match((await http.post("/api/fleets", { name: "Lost", site_id: "site_none" })).refusal, /^404 not_found: site /);
});

test("GET /api/fleets/{id}/logs returns the logs of the fleet's robots", LIMIT, async () => {
  const items = await plane.until("log records", async () => {
    const reply = await http.get(`/api/fleets/${robot.fleet_id}/logs`);
    return reply.items.length > 0 && reply.items;
  });
  assert.ok(items.every(({ robot_id }) => robot_id === robot.id));
});

test("GET /api/enrollment-keys and POST /api/enrollment-keys list and create keys, and show the secret once", LIMIT, async () => {
  const place = { site_id: robot.site_id, fleet_id: robot.fleet_id };
  const made = await http.post("/api/enrollment-keys", { ...place, label: "line 3", max_uses: 5, expires_in_hours: 0 });
  assert.equal(made.status, 201);
  assert.match(String(made.data.key), /^rf_enroll_[0-9a-f]{64}$/);
  assert.deepEqual([made.data.label, made.data.max_uses, made.data.expires_at, made.data.status], ["line 3", 5, null, "active"]);
  const list = await http.get("/api/enrollment-keys");
  assert.ok(list.items.some(({ id }) => id === made.data.id));
  assert.ok(!list.text.includes("rf_enroll_"), "no raw key in a list");
  const expiring = await http.post("/api/enrollment-keys", { ...place, expires_in_hours: 2 });
  const hours = (Date.parse(String(expiring.data.expires_at)) - Date.parse(String(expiring.data.created_at))) / 3_600_000;
  assert.equal(hours, 2);
});

test("POST /api/enrollment-keys refuses a fleet of another site", LIMIT, async () => {
  const elsewhere = await plane.site();
  const reply = await http.post("/api/enrollment-keys", { site_id: elsewhere, fleet_id: robot.fleet_id });
  assert.match(reply.refusal, /^400 bad_request: .*fleet_id/);
});

test("POST /api/enrollment-keys/{id}/revoke revokes a key, and its robots stay enrolled", LIMIT, async () => {
  const key = (await http.post("/api/enrollment-keys", { site_id: robot.site_id, fleet_id: robot.fleet_id })).data;
  const enroll = (public_key: string) => anonymous(plane).post("/agent/enroll", { key: key.key, public_key });
  const kept = await enroll(Buffer.alloc(32, 1).toString("base64"));
  assert.equal(kept.status, 201);
  // Without a body, as the command line sends it.
  for (let times = 0; times < 2; times += 1) {
    const revoked = await http.send("POST", `/api/enrollment-keys/${String(key.id)}/revoke`);
    assert.deepEqual([revoked.status, revoked.data.status], [200, "revoked"]);
  }
  assert.match((await enroll(Buffer.alloc(32, 2).toString("base64"))).refusal, /^403 forbidden: .*revoked/);
  assert.equal((await http.get(`/api/robots/${String(kept.data.robot_id)}`)).status, 200);
});

test("any /api/admin/* route accepts the service admin token, but no org token", LIMIT, async () => {
  const admin = httpOf(plane, ADMIN_TOKEN);
  const org = await admin.post("/api/admin/orgs", { name: "Acme" });
  assert.deepEqual([org.status, org.data.status], [201, "pending"]);
  const approved = await admin.send("POST", `/api/admin/orgs/${String(org.data.id)}/approve`);
  assert.match(String(approved.data.token), /^rf_org_[0-9a-f]{64}$/);
  assert.equal((await httpOf(plane, String(approved.data.token)).get("/api/me")).status, 200);
  assert.match((await admin.send("POST", `/api/admin/orgs/${String(org.data.id)}/approve`)).refusal, /^409 conflict/);
  assert.ok((await admin.get("/api/admin/orgs")).items.some(({ id }) => id === org.data.id));
  assert.match((await http.get("/api/admin/orgs")).refusal, /^403 forbidden/);
  assert.match((await anonymous(plane).get("/api/admin/orgs")).refusal, /^401 unauthorized/);
  assert.match((await admin.get("/api/robots")).refusal, /^401 unauthorized/);
});
