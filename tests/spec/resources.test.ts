import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test } from "node:test";
import { appBundle, DIES, pushBundle } from "../processes/app-bundle.ts";
import { freshKey, type Item } from "./http.ts";
import { anonymous, httpOf, realRobot, sharedPlane } from "./spec-plane.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();
const http = httpOf(plane);
const robot = await realRobot(plane);
const good = await pushBundle(plane.api, "good-1", await appBundle());

/** Deploys and returns the deployment once it has ended. */
async function deploy(body: Item): Promise<Item> {
  const { data } = await http.post("/api/deployments", { rollout: { verify_seconds: 0 }, ...body }, freshKey());
  return plane.until("the deployment to end", async () => {
    const now = (await http.get(`/api/deployments/${String(data.id)}`)).data;
    return now.finished_at !== null && now;
  });
}

const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const hasFields = (item: Item, names: string): void =>
  assert.deepEqual(
    names.split(" ").filter((name) => !(name in item)),
    [],
  );

test("resource Robot contains its id, status, fleet, properties and current release", LIMIT, async () => {
  await deploy({ release: good, robot_id: robot.id });
  const { data } = await http.get(`/api/robots/${robot.id}`);
  hasFields(
    data,
    "id name site_id fleet_id status last_seen_at labels agent_version platform apps current_release desired_release release_state config_state public_key_fingerprint created_at updated_at",
  );
  assert.match(robot.id, /^rob_[0-9a-z]{26}$/);
  assert.deepEqual([data.status, data.name, data.fleet_id, data.site_id], ["online", robot.name, robot.fleet_id, robot.site_id]);
  assert.equal((data.current_release as Item).id, good);
  assert.equal(data.release_state, "current");
  assert.match(String(data.last_seen_at), RFC_3339);
});

test("resource Health snapshot measures the machine, its disks, network and workloads", LIMIT, async () => {
  const data = await plane.until("a snapshot", async () => {
    const reply = await http.get(`/api/robots/${robot.id}/health`);
    return reply.status === 200 && reply.data;
  });
  hasFields(data, "robot_id at boot_id uptime_seconds cpu memory disks network battery workloads ros checks metrics status");
  assert.ok(Number((data.cpu as Item).cores) >= 1);
  assert.ok((data.disks as Item[]).some(({ mount, total_bytes }) => mount === "/" && Number(total_bytes) > 0));
  assert.match(String(data.status), /^(ok|warn|error)$/);
});

test("resource Health snapshot of a robot without a report returns 404 with an explanation", LIMIT, async () => {
  const silent = await plane.enrollRobot({ online: false });
  assert.match((await http.get(`/api/robots/${silent.id}/health`)).refusal, /^404 not_found: health snapshot/);
});

test("resource Timeline entry has a time, kind, subject, actor and summary", LIMIT, async () => {
  const { items } = await http.get(`/api/robots/${robot.id}/timeline?kind=robot.enrolled`);
  assert.equal(items.length, 1);
  hasFields(items[0] ?? {}, "id at kind actor summary data");
  assert.equal((items[0]?.actor as Item | undefined)?.type, "robot");
  assert.match(String(items[0]?.at), RFC_3339);
  assert.ok(String(items[0]?.summary).length > 10);
});

test("resource Log record has its robot, sequence number, times, level, source, message and fields", LIMIT, async () => {
  await deploy({ release: good, robot_id: robot.id });
  const record = await plane.until("what the app printed", async () =>
    (await http.get(`/api/robots/${robot.id}/logs`)).items.find(({ message }) => String(message).startsWith("up ")),
  );
  hasFields(record, "robot_id seq at received_at level source message fields");
  assert.deepEqual([record.robot_id, record.source, record.level], [robot.id, "main", "info"]);
  assert.match(String(record.received_at), RFC_3339);
});

test("resource Release defaults its kind to container_image and keeps tag, notes, digest and size", LIMIT, async () => {
  const artifact_sha256 = hash("sha256", "image");
  const { data } = await http.post("/api/releases", { tag: "nav-1.2.0", notes: "faster\nand safer", artifact_sha256, artifact_size: 5 });
  assert.match(String(data.id), /^rel_[0-9a-z]{26}$/);
  assert.deepEqual(
    [data.kind, data.tag, data.notes, data.artifact_sha256, data.artifact_size, data.app],
    ["container_image", "nav-1.2.0", "faster\nand safer", artifact_sha256, 5, "main"],
  );
  hasFields(data, "artifact_state image manifest signature created_by created_at updated_at");
});

test("resource Deployment has an id, a target kind, a release, a target, a schedule and a status", LIMIT, async () => {
  const ended = await deploy({ release: "good-1", fleet_id: robot.fleet_id });
  assert.match(String(ended.id), /^dep_[0-9a-z]{26}$/);
  hasFields(
    ended,
    "target_kind robot_id fleet_id release_id release scheduled_at status reason rollout counts retry_of rollback_of created_by started_at finished_at created_at updated_at",
  );
  assert.deepEqual(
    [ended.target_kind, ended.fleet_id, ended.robot_id, ended.scheduled_at, ended.status],
    ["fleet", robot.fleet_id, null, null, "applied"],
  );
  assert.deepEqual(ended.release, { id: good, tag: "good-1", kind: "app_bundle", app: "main" });
  assert.deepEqual(ended.counts, { total: 1, pending: 0, queued: 0, active: 0, applied: 1, failed: 0, rolled_back: 0, cancelled: 0 });
});

test("resource Deployment of a crashing release ends as rolled_back, and the robot runs the previous release", LIMIT, async () => {
  await deploy({ release: good, robot_id: robot.id });
  const bad = await pushBundle(plane.api, "bad-1", await appBundle(DIES));
  const ended = await deploy({ release: bad, robot_id: robot.id, rollout: { verify_seconds: 2 } });
  assert.equal(ended.status, "rolled_back");
  assert.match(String(ended.reason), /^(crash_loop|health_check_failed)$/);
  const [target] = (await http.get(`/api/deployments/${String(ended.id)}/targets`)).items;
  hasFields(target ?? {}, "id deployment_id robot_id wave status reason attempt waiting_for progress previous_release_id");
  assert.deepEqual([target?.status, target?.reason, target?.previous_release_id], ["rolled_back", ended.reason, good]);
  const { data } = await http.get(`/api/robots/${robot.id}`);
  assert.equal((data.current_release as Item).id, good);
  const workloads = await plane.until("the old version to run", () => robot.agent.workloads().length > 0 && robot.agent.workloads());
  assert.deepEqual([...new Set(workloads.map(({ env }) => env.ROAMFLEET_RELEASE))], ["good-1"]);
});

test("resource Config entry has key, value, namespace, scope and an increasing version", LIMIT, async () => {
  const { data } = await http.post("/api/configs", { key: "max_speed", value: { linear: 1 } });
  assert.match(String(data.id), /^cfg_[0-9a-z]{26}$/);
  assert.deepEqual(
    [data.key, data.value, data.namespace, data.scope, data.scope_id, data.version],
    ["max_speed", { linear: 1 }, "default", "org", null, 1],
  );
  assert.equal((await http.post("/api/configs", { key: "max_speed", value: 2 })).data.version, 2);
});

test("resource Config deployment contains id, target, status and counts, and freezes the values at its creation", LIMIT, async () => {
  await http.post("/api/configs", { key: "frozen", value: "before", namespace: "frost", scope: "fleet", scope_id: robot.fleet_id });
  const { data } = await http.post("/api/configs/deployments", { robot_id: robot.id, namespace: "frost" }, freshKey());
  assert.match(String(data.id), /^cdep_[0-9a-z]{26}$/);
  hasFields(data, "target_kind robot_id fleet_id namespace revision status counts");
  await plane.until("its end", async () => (await http.get(`/api/configs/deployments/${String(data.id)}`)).data.status === "applied");
  await http.post("/api/configs", { key: "frozen", value: "after", namespace: "frost", scope: "fleet", scope_id: robot.fleet_id });
  const config = (await http.get(`/api/robots/${robot.id}/config`)).data;
  assert.deepEqual(
    (config.effective as Item[]).filter(({ key }) => key === "frozen").map(({ value, scope }) => [value, scope]),
    [["after", "fleet"]],
  );
  const file = (config.namespaces as Item[]).find(({ namespace }) => namespace === "frost");
  assert.equal(file?.reported_sha256, file?.deployed_sha256, "setting a value alone changes nothing on a robot");
  assert.equal(file?.reported_sha256, hash("sha256", `${JSON.stringify({ frozen: "before" }, null, 2)}\n`));
});

test("resource Site has an id and a name, and counts its robots", LIMIT, async () => {
  const { data } = await http.get(`/api/sites/${robot.site_id}`);
  assert.match(robot.site_id, /^site_[0-9a-z]{26}$/);
  assert.deepEqual([data.robot_count, data.online_count], [1, 1]);
  assert.equal(typeof data.name, "string");
});

test("resource Fleet has an id, a name and its site, and counts its robots", LIMIT, async () => {
  const { data } = await http.get(`/api/fleets/${robot.fleet_id}`);
  assert.match(robot.fleet_id, /^fleet_[0-9a-z]{26}$/);
  assert.deepEqual([data.site_id, data.robot_count, data.online_count, data.follow], [robot.site_id, 1, 1, true]);
  hasFields(data, "name desired config_revision created_at updated_at");
});

test("resource Enrollment key counts its uses, and shows its raw value once", LIMIT, async () => {
  const place = { site_id: robot.site_id, fleet_id: robot.fleet_id };
  const { data } = await http.post("/api/enrollment-keys", place);
  assert.match(String(data.id), /^key_[0-9a-z]{26}$/);
  assert.match(String(data.key), /^rf_enroll_[0-9a-f]{64}$/);
  assert.deepEqual([data.label, data.max_uses, data.uses, data.status, data.revoked_at], [null, 100, 0, "active", null]);
  await anonymous(plane).post("/agent/enroll", { key: data.key, public_key: Buffer.alloc(32, 7).toString("base64") });
  const read = (await http.get(`/api/enrollment-keys/${String(data.id)}`)).data;
  assert.deepEqual([read.uses, "key" in read], [1, false]);
});
