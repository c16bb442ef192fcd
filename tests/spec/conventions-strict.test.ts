import assert from "node:assert/strict";
import { test } from "node:test";
import { httpOf, sharedPlane } from "./spec-plane.ts";
import { freshKey } from "./http.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();
const http = httpOf(plane);
const robot = await plane.enrollRobot();
const release = await plane.release({ tag: "one" });
const fleet_id = await plane.homeFleet();
const { site_id } = (await plane.api.getFleet({ params: { id: fleet_id } })).data;

test("refuses an unknown query parameter or body field by name and suggests the nearest known one", LIMIT, async () => {
  assert.match((await http.get("/api/robots?fleet=x")).refusal, /^400 bad_request: .*fleet\b.*fleet_id/);
  assert.match((await http.get("/api/sites?limt=3")).refusal, /limt.*limit/);
  assert.match((await http.post("/api/sites", { nmae: "x" })).refusal, /^400 bad_request: .*(nmae|name)/);
  assert.match((await http.post("/api/sites", { name: "x", nam: "y" })).refusal, /nam\b.*name/);
  assert.match(
    (await http.post("/api/deployments", { release: release.id, robot_id: robot.id, rollout: { verify_second: 1 } }, freshKey())).refusal,
    /rollout\.verify_second\b.*verify_seconds/,
  );
  for (const rollout of [{ wave: [] }, { max_paralel: 1 }, { failure_treshold: {} }, { dry: true }]) {
    assert.match(
      (await http.post("/api/deployments", { release: release.id, robot_id: robot.id, rollout }, freshKey())).refusal,
      /^400 bad_request: unknown field rollout\./,
    );
  }
  assert.match(
    (await http.post("/api/deployments", { release: release.id, robot_id: robot.id, dryrun: true }, freshKey())).refusal,
    /^400 bad_request: unknown field dryrun\b.*dry_run/,
  );
});

test("refuses a body value of the wrong type with the name of its field", LIMIT, async () => {
  for (const [body, named] of [
    [{ site_id, fleet_id, max_uses: "5" }, /max_uses/],
    [{ site_id, fleet_id, max_uses: -1 }, /max_uses/],
    [{ site_id, fleet_id, max_uses: 1.5 }, /max_uses/],
    [{ site_id, fleet_id, expires_in_hours: true }, /expires_in_hours/],
    [{ site_id: 7, fleet_id }, /site_id/],
  ] as const) {
    const { refusal } = await http.post("/api/enrollment-keys", body);
    assert.match(refusal, /^400 bad_request/);
    assert.match(refusal, named);
  }
  assert.match((await http.get("/api/robots?limit=0")).refusal, /^400 bad_request: .*limit/);
  assert.match((await http.get("/api/robots?limit=1001")).refusal, /limit/);
  assert.match((await http.get("/api/robots?limit=two")).refusal, /limit/);
  assert.match((await http.get("/api/robots?status=lost")).refusal, /status.*online/);
});

test("refuses a body that is not an object", LIMIT, async () => {
  for (const body of [[], "text", 5, true, null, [{ name: "x" }]])
    assert.match(
      (await http.send("POST", "/api/sites", { raw: JSON.stringify(body) })).refusal,
      /^400 bad_request: the body must be a JSON object/,
    );
});

test("null counts as absent in an optional field, and is refused in a required one", LIMIT, async () => {
  const made = await http.post("/api/enrollment-keys", { site_id, fleet_id, label: null, max_uses: null, expires_in_hours: null });
  assert.deepEqual([made.status, made.data.label, made.data.max_uses], [201, null, 100]);
  const deployed = await http.post(
    "/api/deployments",
    { release: release.id, robot_id: robot.id, fleet_id: null, scheduled_at: null, rollout: null },
    freshKey(),
  );
  assert.deepEqual([deployed.status, deployed.data.target_kind], [201, "robot"]);
  const nested = await http.post(
    "/api/deployments",
    { release: release.id, robot_id: robot.id, rollout: { verify_seconds: null } },
    freshKey(),
  );
  assert.equal(nested.status, 201);
  assert.match((await http.post("/api/sites", { name: null })).refusal, /^400 bad_request: .*name/);
  assert.match((await http.post("/api/fleets", { name: "x", site_id: null })).refusal, /^400 bad_request: .*site_id/);
  assert.deepEqual((await http.post("/api/configs", { key: "null", value: null, namespace: null })).data.value, null);
});

test("a release can be named by release, release_id or release_tag, with an id or a tag", LIMIT, async () => {
  for (const name of ["release", "release_id", "release_tag"]) {
    for (const value of [release.id, "one"]) {
      const { data } = await http.post("/api/deployments", { [name]: value, robot_id: robot.id }, freshKey());
      assert.deepEqual([data.release_id, "release_tag" in data], [release.id, false]);
    }
  }
  assert.match(
    (await http.post("/api/deployments", { release: "one", release_id: release.id, robot_id: robot.id }, freshKey())).refusal,
    /^400 bad_request/,
  );
});

test("a deployment needs exactly one target, by robot_id, fleet_id, or target_kind with target_id", LIMIT, async () => {
  const deploy = async (target: object) => http.post("/api/deployments", { release: "one", ...target }, freshKey());
  assert.equal((await deploy({ target_kind: "robot", target_id: robot.id })).data.robot_id, robot.id);
  assert.equal((await deploy({ target_kind: "fleet", target_id: fleet_id })).data.fleet_id, fleet_id);
  assert.equal((await deploy({ target_kind: "robot", robot_id: robot.id })).data.robot_id, robot.id);
  for (const target of [
    {},
    { robot_id: robot.id, fleet_id },
    { target_kind: "fleet", robot_id: robot.id },
    { target_id: robot.id },
    { target_kind: "robot" },
    { target_kind: "robot", target_id: robot.id, robot_id: robot.id },
    { target_kind: "site", target_id: site_id },
  ]) {
    assert.match((await deploy(target)).refusal, /^400 bad_request/, JSON.stringify(target));
  }
  assert.match((await http.post("/api/configs/deployments", {}, freshKey())).refusal, /^400 bad_request/);
  assert.equal(
    (await http.post("/api/configs/deployments", { target_kind: "robot", target_id: robot.id }, freshKey())).data.robot_id,
    robot.id,
  );
});

test("accepts name instead of label for an enrollment key, and semver instead of tag for a release", LIMIT, async () => {
  const key = await http.post("/api/enrollment-keys", { site_id, fleet_id, name: "called name" });
  assert.deepEqual([key.data.label, "name" in key.data], ["called name", false]);
  const made = await http.post("/api/releases", { semver: "7.0.0", artifact_sha256: "a".repeat(64), artifact_size: 1 });
  assert.deepEqual([made.data.tag, "semver" in made.data], ["7.0.0", false]);
});

test("names and tags accept 200 characters of any language, but no control characters or outer spaces", LIMIT, async () => {
  for (const name of ["Ü", "倉庫 3", "مستودع", "🤖", "a  b", "x".repeat(200)])
    assert.equal((await http.post("/api/sites", { name })).status, 201, name);
  for (const name of ["", " a", "a ", "a\nb", "a\tb", "a\u0007", "a\u2028b", "x".repeat(201)])
    assert.match((await http.post("/api/sites", { name })).refusal, /^400 bad_request: .*name/, JSON.stringify(name));
  const tagged = async (tag: string) => http.post("/api/releases", { tag, artifact_sha256: "b".repeat(64), artifact_size: 1 });
  assert.match((await tagged(release.id)).refusal, /^400 bad_request: .*tag/);
  assert.equal((await tagged("rel_short")).status, 201);
});

test("a release needs a digest of 64 hexadecimal digits and a size in whole bytes", LIMIT, async () => {
  for (const body of [
    { artifact_sha256: "A".repeat(64), artifact_size: 1 },
    { artifact_sha256: "a".repeat(63), artifact_size: 1 },
    { artifact_sha256: "a".repeat(64), artifact_size: -1 },
    { artifact_sha256: "a".repeat(64), artifact_size: 0.5 },
    { artifact_sha256: "a".repeat(64) },
  ]) {
    assert.match((await http.post("/api/releases", { tag: "odd", ...body })).refusal, /^400 bad_request: .*artifact_(sha256|size)/);
  }
});

test("refuses a config namespace that is too long for a file name when encoded", LIMIT, async () => {
  assert.equal((await http.post("/api/configs", { key: "k", value: 1, namespace: "../../etc" })).status, 201);
  assert.equal((await http.post("/api/configs", { key: "k", value: 1, namespace: ".hidden" })).status, 201);
  assert.match(
    (await http.post("/api/configs", { key: "k", value: 1, namespace: "倉".repeat(60) })).refusal,
    /^400 bad_request: .*namespace/,
  );
});

test("an id that is unknown, malformed or of the wrong kind returns 404 in path, query and body", LIMIT, async () => {
  for (const id of [release.id, "x", "rob_UPPER", "rob_00000000000000000000000000", "%00", "..%2f", "rob_'--", "🤖"]) {
    assert.match((await http.get(`/api/robots/${id}`)).refusal, /^404 not_found/, id);
  }
  for (const id of [robot.id, "x", "", "\u202e", "%"]) {
    assert.match((await http.get(`/api/robots?fleet_id=${encodeURIComponent(id)}`)).refusal, /^404 not_found: fleet /, id);
    assert.match((await http.post("/api/fleets", { name: "n", site_id: id })).refusal, /^404 not_found: site /, id);
    assert.match((await http.post("/api/deployments", { release: "one", fleet_id: id }, freshKey())).refusal, /^404 not_found: fleet /, id);
    assert.match(
      (await http.post("/api/deployments", { release: `${id}?`, robot_id: robot.id }, freshKey())).refusal,
      /^404 not_found: release /,
      id,
    );
  }
});
