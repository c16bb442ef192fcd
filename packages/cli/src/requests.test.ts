import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { RfHome } from "./testing/run-rf.ts";
import { type Script, ScriptedPeer } from "./testing/scripted-peer.ts";

const TIMEOUT = { timeout: 120_000 };
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const HOSTED = "GET /api/packages";

/** Responds like a server that hosts no packages. Lists are empty; other responses contain the fields that `rf` reads. */
const anything: Script = ({ line }) => {
  if (line === HOSTED) return { status: 404, body: { error: { code: "not_found", message: "unknown route" } } };
  const is_list = /^GET \S*(s|logs|timeline|events|deployments)(\?\S*)?$/.test(line);
  const data = {
    id: "x_1",
    tag: "1.0",
    namespace: "default",
    key: "k",
    value: 1,
    version: 1,
    status: "queued",
    release: { tag: "1.0" },
    scheduled_at: null,
    counts: { active: 0 },
  };
  return { body: is_list ? { items: [], next_cursor: null } : { data } };
};

/** Arguments, and the expected request: method, path and body. */
const calls: [string[], string, unknown?][] = [
  [["robots", "list"], "GET /api/robots"],
  [["robots", "show", "rob_1"], "GET /api/robots/rob_1"],
  [["robots", "inspect", "rob_1"], "GET /api/robots/rob_1/health"],
  [["explain", "rob_1", "--deployment", "dep_1"], "GET /api/robots/rob_1/explain?deployment_id=dep_1"],
  [["robots", "logs", "rob_1"], "GET /api/robots/rob_1/logs"],
  [["robots", "timeline", "rob_1"], "GET /api/robots/rob_1/timeline"],
  [["releases", "list"], "GET /api/releases"],
  [["releases", "show", `rel_${"0".repeat(26)}`], `GET /api/releases/rel_${"0".repeat(26)}`],
  [["deployments", "list", "--status", "queued", "--limit", "5"], "GET /api/deployments?status=queued&cause=request&limit=5"],
  [["deployments", "list", "--since", "2030-01-01T00:00:00Z"], "GET /api/deployments?since=2030-01-01T00%3A00%3A00.000Z&cause=request"],
  [["deployments", "cancel", "dep_1"], "POST /api/deployments/dep_1/cancel", {}],
  [["deploy", "1.0", "--robot", "rob_1"], "POST /api/deployments", { release: "1.0", robot_id: "rob_1" }],
  [
    ["deploy", "1.0", "--fleet", "fleet_1", "--scheduled-at", "2030-01-01T00:00:00Z"],
    "POST /api/deployments",
    { release: "1.0", fleet_id: "fleet_1", scheduled_at: "2030-01-01T00:00:00Z" },
  ],
  [["configs", "list"], "GET /api/configs"],
  [["configs", "set", "k", "[1,2]"], "POST /api/configs", { key: "k", value: [1, 2] }],
  [["configs", "set", "k", "not json", "--namespace", "nav"], "POST /api/configs", { key: "k", value: "not json", namespace: "nav" }],
  [["configs", "set", "k", "-5"], "POST /api/configs", { key: "k", value: -5 }],
  [["configs", "deployments"], "GET /api/configs/deployments"],
  [["configs", "events", "cdep_1"], "GET /api/configs/deployments/cdep_1/events"],
  [["sites", "list"], "GET /api/sites"],
  [["sites", "create", "Berlin"], "POST /api/sites", { name: "Berlin" }],
  [["fleets", "list"], "GET /api/fleets"],
  [["fleets", "create", "Kiosks", "--site", "site_1"], "POST /api/fleets", { name: "Kiosks", site_id: "site_1" }],
  [["fleets", "logs", "fleet_1"], "GET /api/fleets/fleet_1/logs"],
  [["keys", "list"], "GET /api/enrollment-keys"],
  [["keys", "new", "--site", "s", "--fleet", "f"], "POST /api/enrollment-keys", { site_id: "s", fleet_id: "f" }],
  [
    ["keys", "new", "--site", "s", "--fleet", "f", "--label", "l", "--max-uses", "3", "--expires-in-hours", "0"],
    "POST /api/enrollment-keys",
    { site_id: "s", fleet_id: "f", label: "l", max_uses: 3, expires_in_hours: 0 },
  ],
  [["keys", "revoke", "key_1"], "POST /api/enrollment-keys/key_1/revoke", {}],
  [["orgs", "list"], "GET /api/admin/orgs"],
  [["orgs", "create", "Acme"], "POST /api/admin/orgs", { name: "Acme" }],
  [["orgs", "approve", "org_1"], "POST /api/admin/orgs/org_1/approve", {}],
  [["api", "get", "api/robots?q=a", "-f", "status=online"], "GET /api/robots?q=a&status=online"],
  [
    ["api", "PATCH", "/api/robots/rob_1", "-f", "name=1", "-F", "labels[zone]=a", "-F", "n=1"],
    "PATCH /api/robots/rob_1",
    { name: "1", labels: { zone: "a" }, n: 1 },
  ],
];
for (const [args, line, body] of calls) {
  test(`rf ${args.join(" ")} requests ${line}`, TIMEOUT, async () => {
    await using home = await RfHome.make();
    await using service = await ScriptedPeer.start(anything);
    const { code, stdout, stderr } = await home.run([...args, "--json"], { env: service.env });
    assert.equal(code, 0, stderr);
    assert.equal(typeof JSON.parse(stdout), "object");
    // `rf keys new` also requests the hosted packages, to print the command that installs the agent.
    assert.deepEqual(service.lines, args[0] === "keys" && args[1] === "new" ? [line, HOSTED] : [line]);
    const [asked] = service.asked;
    assert.deepEqual(asked!.body === "" ? undefined : JSON.parse(asked!.body), body);
    assert.equal(asked!.headers.authorization, line.includes("/admin/") ? undefined : "Bearer rf_user_test");
  });
}

test("rf deploy sends a new UUIDv4 or the given idempotency key", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(anything);
  for (const extra of [[], [], ["--idempotency-key", "mine"]])
    await home.run(["deploy", "1.0", "--robot", "r", ...extra], { env: service.env });
  const keys = service.asked.map(({ headers }) => String(headers["idempotency-key"]));
  assert.match(keys[0]!, UUID_V4);
  assert.match(keys[1]!, UUID_V4);
  assert.notEqual(keys[0], keys[1]);
  assert.equal(keys[2], "mine");
});

test("rf configs set with --fleet or --robot sets the value in this scope and deploys it", TIMEOUT, async () => {
  for (const kind of ["fleet", "robot"]) {
    await using home = await RfHome.make();
    await using service = await ScriptedPeer.start(anything);
    const { stdout } = await home.run(["configs", "set", "k", "1", `--${kind}`, "id_1", "--json"], { env: service.env });
    assert.deepEqual(service.lines, ["POST /api/configs", "POST /api/configs/deployments"]);
    const [set, deploy] = service.asked;
    assert.deepEqual(JSON.parse(set!.body), { key: "k", value: 1, scope: kind, scope_id: "id_1" });
    assert.deepEqual(JSON.parse(deploy!.body), { [`${kind}_id`]: "id_1", namespace: "default" });
    assert.match(String(deploy!.headers["idempotency-key"]), UUID_V4);
    assert.deepEqual(Object.keys(JSON.parse(stdout).data), ["config", "deployment"]);
  }
});

test("rf sends only the admin token to admin routes", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(anything);
  await home.run(["orgs", "list"], { env: { ...service.env, ROAMFLEET_ADMIN_TOKEN: "from-env" } });
  await home.run(["orgs", "list", "--admin-token", "-"], { env: service.env, stdin: "piped\n" });
  await home.run(["orgs", "list"], { env: service.env });
  assert.deepEqual(
    service.asked.map(({ headers }) => headers.authorization),
    ["Bearer from-env", "Bearer piped", undefined],
  );
});

test("a list command follows all pages up to --limit", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const robots = Array.from({ length: 5 }, (_, at) => ({ id: `rob_${at}` }));
  await using service = await ScriptedPeer.start(({ line }) => {
    const query = new URL(line.split(" ")[1]!, "http://x").searchParams;
    const from = Number(query.get("cursor") ?? 0);
    const to = from + 2;
    return { body: { items: robots.slice(from, to), next_cursor: to < robots.length ? String(to) : null } };
  });
  const all = await home.run(["robots", "list", "--json"], { env: service.env });
  assert.deepEqual(JSON.parse(all.stdout), { items: robots, next_cursor: null });
  service.asked.length = 0;
  const some = await home.run(["robots", "list", "--json", "--limit", "3"], { env: service.env });
  assert.deepEqual(JSON.parse(some.stdout).items, robots.slice(0, 3));
  assert.deepEqual(service.lines, ["GET /api/robots?limit=3", "GET /api/robots?limit=3&cursor=2"]);
});

const statuses: [number, string, number][] = [
  [400, "bad_request", 1],
  [401, "unauthorized", 4],
  [403, "forbidden", 4],
  [404, "not_found", 5],
  [409, "conflict", 6],
  [500, "internal_server_error", 1],
];
for (const [status, code, exit_code] of statuses) {
  test(`rf exits ${exit_code} on status ${status} and prints the error as text or JSON`, TIMEOUT, async () => {
    await using home = await RfHome.make();
    const body = { error: { code, message: "robot rob_1 is \u001b[31mred" } };
    await using service = await ScriptedPeer.start(() => ({ status, body }));
    const people = await home.run(["robots", "show", "rob_1"], { env: service.env });
    assert.deepEqual([people.code, people.stdout], [exit_code, ""]);
    assert.match(people.stderr, /^error: robot rob_1 is \\x1b\[31mred\n/);
    const program = await home.run(["robots", "show", "rob_1", "--json"], { env: service.env });
    assert.deepEqual([program.code, JSON.parse(program.stdout)], [exit_code, body]);
  });
}

test("rf releases push creates a release and uploads the file unless it is stored already", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const content = Buffer.alloc(70_000, "bundle");
  const file = path.join(home.directory, "nav-1.4.0.tar.gz");
  await writeFile(file, content);
  const release = { id: "rel_1", tag: "nav-1.4.0", artifact_state: "awaiting_upload", artifact_size: content.length, created_by: null };
  let stored = false;
  let received = "";
  await using service = await ScriptedPeer.start(({ line, body }) => {
    if (line.startsWith("PATCH")) {
      stored = true;
      received = body;
    }
    const headers = { "upload-offset": String(stored ? content.length : 0) };
    return { body: { data: { ...release, artifact_state: stored ? "stored" : "awaiting_upload" } }, headers };
  });
  const args = ["releases", "push", file, "--notes", "new", "--kind", "app_bundle", "--json"];
  const first = await home.run(args, { env: service.env });
  assert.equal(first.code, 0, first.stderr);
  assert.equal(JSON.parse(first.stdout).data.artifact_state, "stored");
  assert.deepEqual(service.lines, [
    "POST /api/releases",
    "POST /api/releases/rel_1/artifact",
    "PATCH /api/releases/rel_1/artifact",
    "GET /api/releases/rel_1",
  ]);
  const artifact_sha256 = createHash("sha256").update(content).digest("hex");
  assert.deepEqual(JSON.parse(service.asked[0]!.body), {
    tag: "nav-1.4.0",
    notes: "new",
    kind: "app_bundle",
    artifact_sha256,
    artifact_size: content.length,
  });
  assert.equal(received, content.toString());
  const again = await home.run(["releases", "push", file], { env: service.env });
  assert.equal(again.code, 0);
  assert.match(again.stderr, /nothing was uploaded/);
  assert.deepEqual(service.lines.slice(4), ["POST /api/releases"]);
  assert.equal(JSON.parse(service.asked[4]!.body).kind, "container_image");
});

test("rf releases push prints an error for a missing file or a directory", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const gone = await home.run(["releases", "push", "nothing-here.tar"], { env: { ROAMFLEET_TOKEN: "t" } });
  assert.deepEqual([gone.code, gone.stderr], [1, "error: nothing-here.tar: no such file or directory\n"]);
  const directory = await home.run(["releases", "push", home.directory], { env: { ROAMFLEET_TOKEN: "t" } });
  assert.equal(directory.code, 2);
  assert.match(directory.stderr, /is a directory\n {2}Pack it first: tar -czf/);
});
