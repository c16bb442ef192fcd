import assert from "node:assert/strict";
import { test } from "node:test";
import { startPlane } from "../harness/index.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { freshKey } from "./http.ts";
import { anonymous, httpOf, sharedPlane } from "./spec-plane.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();
const http = httpOf(plane);

test("error bad_request is 400 and names the invalid field", LIMIT, async () => {
  assert.match((await http.post("/api/sites", {})).refusal, /^400 bad_request: .*name/);
});

test("error unauthorized is 401 for missing, unknown and expired credentials", LIMIT, async () => {
  assert.match((await anonymous(plane).get("/api/me")).refusal, /^401 unauthorized/);
  assert.match((await httpOf(plane, "rf_user_x").get("/api/me")).refusal, /^401 unauthorized/);
  const expired = await plane.token({ expires_at: new Date(Date.now() - 1_000) });
  assert.match((await httpOf(plane, expired).get("/api/me")).refusal, /^401 unauthorized: .*expired/);
});

test("error forbidden is 403 for valid credentials without the required permission", LIMIT, async () => {
  const viewer = httpOf(plane, await plane.token({ role: "viewer" }));
  assert.match((await viewer.post("/api/sites", { name: "x" })).refusal, /^403 forbidden: .*operator.*viewer/);
});

test("error not_found is 404 and names the kind of the missing object", LIMIT, async () => {
  const robot = await plane.enrollRobot({ online: false });
  for (const [path, kind] of [
    ["/api/robots/x", "robot"],
    ["/api/releases/x", "release"],
    ["/api/deployments/x", "deployment"],
    ["/api/configs/x", "config"],
    ["/api/configs/deployments/x", "config deployment"],
    ["/api/sites/x", "site"],
    ["/api/fleets/x", "fleet"],
    ["/api/enrollment-keys/x", "enrollment key"],
  ] as const) {
    assert.equal((await http.get(path)).refusal, `404 not_found: ${kind} x does not exist`);
  }
  assert.match(
    (await http.post("/api/deployments", { release: "none", robot_id: robot.id }, freshKey())).refusal,
    /^404 not_found: release none/,
  );
});

test("error conflict is 409 and names the conflicting object", LIMIT, async () => {
  const site_id = await plane.site("Full");
  await plane.fleet({ site_id });
  assert.match((await http.send("DELETE", `/api/sites/${site_id}`)).refusal, /^409 conflict: .*fleet/);
  assert.match((await http.post("/api/sites", { name: "Full" })).refusal, /^409 conflict: .*Full/);
});

test("error http_error is the code of 405, 413, 414 and 415", LIMIT, async () => {
  assert.match((await http.send("PUT", "/api/robots")).refusal, /^405 http_error/);
  assert.match((await http.get(`/api/robots?q=${"x".repeat(9_000)}`)).refusal, /^414 http_error/);
  assert.match((await http.send("POST", "/api/sites", { raw: "x", headers: { "content-type": "text/plain" } })).refusal, /^415 http_error/);
});

test("error internal_server_error is 500 without internal details, which only the server log contains", LIMIT, async () => {
  await using broken = await startPlane();
  await broken.db.run(sql`alter table site rename to lost_site`);
  const reply = await httpOf(broken).get("/api/sites", { "x-request-id": "what-happened" });
  assert.match(reply.refusal, /^500 internal_server_error: /);
  assert.doesNotMatch(reply.text, /site|relation|sql/i);
  const logged = broken.logged.find(({ request_id }) => request_id === "what-happened");
  assert.match(JSON.stringify(logged), /does not exist/);
});
