import assert from "node:assert/strict";
import { test } from "node:test";
import { startPlane } from "../harness/index.ts";
import { anonymous, httpOf, sharedPlane } from "./spec-plane.ts";
import { freshKey, Http } from "./http.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();
const http = httpOf(plane);
const robot = await plane.enrollRobot();
const release = await plane.release({ tag: "first" });

test("convention Transport: bodies are JSON in UTF-8, and another content type returns 415", LIMIT, async () => {
  const reply = await http.get("/api/robots");
  assert.equal(reply.headers.get("content-type"), "application/json; charset=utf-8");
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/xml"]) {
    assert.match(
      (await http.send("POST", "/api/sites", { raw: '{"name":"x"}', headers: { "content-type": type } })).refusal,
      /^415 http_error/,
    );
  }
  const odd = await http.send("POST", "/api/sites", {
    raw: '{"name":"Typed"}',
    headers: { "content-type": "Application/JSON; charset=utf-8" },
  });
  assert.equal(odd.status, 201);
});

test("convention Transport: a missing request body counts as {}, whatever the Content-Type", LIMIT, async () => {
  const key = (await plane.api.listEnrollmentKeys({})).items[0]?.id ?? "";
  for (const type of ["text/plain", "application/json", "application/octet-stream"]) {
    assert.equal((await http.send("POST", `/api/enrollment-keys/${key}/revoke`, { headers: { "content-type": type } })).status, 200);
  }
  assert.match((await http.send("POST", "/api/sites", { headers: { "content-type": "text/plain" } })).refusal, /^400 bad_request: .*name/);
});

test("convention List response contains items and a cursor", LIMIT, async () => {
  for (const path of [
    "/api/robots",
    "/api/releases",
    "/api/deployments",
    "/api/configs",
    "/api/configs/deployments",
    "/api/sites",
    "/api/fleets",
    "/api/enrollment-keys",
    `/api/robots/${robot.id}/timeline`,
    `/api/robots/${robot.id}/logs`,
  ]) {
    const reply = await http.get(path);
    assert.deepEqual([path, reply.status, Object.keys(reply.body).toSorted()], [path, 200, ["items", "next_cursor"]]);
  }
});

test("convention Single-object response contains data and nothing else", LIMIT, async () => {
  for (const path of ["/api/me", `/api/robots/${robot.id}`, `/api/releases/${release.id}`, `/api/fleets/${await plane.homeFleet()}`]) {
    assert.deepEqual(Object.keys((await http.get(path)).body), ["data"], path);
  }
  const made = await http.post("/api/sites", { name: "Data" });
  assert.deepEqual(
    [made.status, Object.keys(made.body), made.headers.get("location")],
    [201, ["data"], `/api/sites/${String(made.data.id)}`],
  );
});

test("convention Error response contains code and message, even for errors of the HTTP framework", LIMIT, async () => {
  assert.match((await http.get("/api/robots/rob_none")).refusal, /^404 not_found: robot rob_none does not exist$/);
  assert.match((await http.get("/api/nothing/here")).refusal, /^404 not_found: path \/api\/nothing\/here/);
  assert.match((await http.get("/nothing")).refusal, /^404 not_found/);
  assert.match((await http.send("PUT", "/api/sites", { body: {} })).refusal, /^405 http_error/);
  assert.match((await http.send("POST", "/api/sites", { raw: "{" })).refusal, /^400 bad_request: the body is not valid JSON/);
  assert.match((await http.get(`/api/robots/${"x".repeat(9_000)}`)).refusal, /^414 http_error/);
  const undecodable = await http.get("/api/robots/%E0%A4%A");
  assert.match(undecodable.refusal, /^404 not_found/);
  assert.equal(undecodable.headers.get("x-service-org-id"), plane.default_org.id);
});

test("returns 405 with the header Allow for an unsupported method, but only to requests with a token", LIMIT, async () => {
  const reply = await http.send("DELETE", "/api/deployments");
  assert.match(reply.refusal, /^405 http_error/);
  assert.deepEqual((reply.headers.get("allow") ?? "").split(", ").toSorted(), ["GET", "HEAD", "POST"]);
  assert.match((await anonymous(plane).send("DELETE", "/api/deployments")).refusal, /^401 unauthorized/);
});

test("HEAD returns the headers of GET, without a body", LIMIT, async () => {
  const head = await http.send("HEAD", "/api/robots");
  assert.deepEqual([head.status, head.text, head.headers.get("x-service-org-id")], [200, "", plane.default_org.id]);
});

test("convention Response header X-Service-Org-Id is in every response to a valid token, including errors", LIMIT, async () => {
  const { id } = plane.default_org;
  for (const [method, path] of [
    ["GET", "/api/robots"],
    ["GET", "/api/robots/rob_none"],
    ["GET", "/api/nothing"],
    ["PUT", "/api/sites"],
    ["POST", "/api/sites"],
    ["GET", "/api/robots?unknown=1"],
  ] as const) {
    assert.equal((await http.send(method, path)).headers.get("x-service-org-id"), id, `${method} ${path}`);
  }
  const viewer = httpOf(plane, await plane.token({ role: "viewer" }));
  assert.equal((await viewer.post("/api/sites", { name: "no" })).headers.get("x-service-org-id"), id);
  assert.equal((await anonymous(plane).get("/api/robots")).headers.get("x-service-org-id"), null);
});

test("X-Service-Org-Id selects the org of a request, and returns 403 for an org of other users", LIMIT, async () => {
  const other = await plane.org();
  const own = await http.get("/api/robots", { "x-service-org-id": plane.default_org.id });
  assert.equal(own.headers.get("x-service-org-id"), plane.default_org.id);
  for (const org of [other.id, "org_none", "nonsense"]) {
    assert.match((await http.get("/api/robots", { "x-service-org-id": org })).refusal, /^403 forbidden/);
  }
});

test("convention Idempotency: Idempotency-Key is required on two routes and accepted on every other POST", LIMIT, async () => {
  for (const [path, body] of [
    ["/api/deployments", { release: release.id, robot_id: robot.id }],
    ["/api/configs/deployments", { robot_id: robot.id }],
  ] as const) {
    assert.match((await http.post(path, body)).refusal, /^400 bad_request: the header Idempotency-Key/);
    const key = freshKey();
    const first = await http.post(path, body, key);
    const second = await http.post(path, body, key);
    assert.deepEqual(
      [first.status, second.status, second.text, second.headers.get("idempotency-replayed")],
      [201, 201, first.text, "true"],
    );
    assert.equal(first.headers.get("idempotency-replayed"), null);
  }
  const key = freshKey();
  const [a, b] = [await http.post("/api/sites", { name: "Once" }, key), await http.post("/api/sites", { name: "Once" }, key)];
  assert.deepEqual([b.status, b.text, b.headers.get("location")], [201, a.text, a.headers.get("location")]);
});

test("convention Auth: every path under /api/ returns 401 without a valid token", LIMIT, async () => {
  for (const path of ["/api/robots", "/api/me", "/api/unknown/path", "/api/", "/api/robots/%ff"]) {
    const reply = await anonymous(plane).get(path);
    assert.match(reply.refusal, /^401 unauthorized/, path);
    assert.match(reply.headers.get("www-authenticate") ?? "", /^Bearer/i);
  }
  for (const bearer of ["Bearer", "bearer", "BEARER"]) {
    assert.equal((await anonymous(plane).get("/api/me", { authorization: `${bearer} ${plane.default_org.admin_token}` })).status, 200);
  }
  for (const value of [plane.default_org.admin_token, `Basic ${plane.default_org.admin_token}`, "Bearer", "Bearer x y"]) {
    assert.match((await anonymous(plane).get("/api/me", { authorization: value })).refusal, /^401 unauthorized/);
  }
});

test("the OpenAPI documents, the API reference and the health checks need no token", LIMIT, async () => {
  for (const path of ["/openapi.json", "/agent/openapi.json", "/docs", "/healthz", "/readyz"])
    assert.equal((await anonymous(plane).get(path)).status, 200, path);
  assert.match((await anonymous(plane).get("/metrics")).refusal, /^401 unauthorized/);
});

test("the server keeps a valid X-Request-Id, and generates one otherwise", LIMIT, async () => {
  assert.equal((await http.get("/api/me", { "x-request-id": "build-42.7" })).headers.get("x-request-id"), "build-42.7");
  for (const bad of ["a b", "<script>", "x".repeat(101)]) {
    const given = (await http.get("/api/me", { "x-request-id": bad })).headers.get("x-request-id");
    assert.match(given ?? "", /^req_/);
  }
});

test("a 429 for rate-limited or guessed tokens has the header Retry-After and names the limit", LIMIT, async () => {
  await using strict = await startPlane({ limits: { token_requests_per_minute: 1, token_burst: 3, unknown_requests_per_minute: 2 } });
  const own = httpOf(strict);
  let reply = await own.get("/api/me");
  for (let asked = 1; reply.status === 200 && asked < 5; asked += 1) reply = await own.get("/api/me");
  assert.match(reply.refusal, /^429 http_error/);
  assert.ok(Number(reply.headers.get("retry-after")) > 0);
  assert.ok(reply.headers.has("ratelimit") && reply.headers.has("ratelimit-policy"));
  const guess = new Http(strict, `rf_org_${"1".repeat(64)}`);
  const answers = [];
  for (let asked = 0; asked < 4; asked += 1) answers.push((await guess.get("/api/me")).status);
  assert.deepEqual(answers, [401, 401, 429, 429]);
  const fresh = httpOf(strict, await strict.token());
  assert.equal((await fresh.get("/api/me")).status, 200, "who knows a token is not held up by those who guess");
});
