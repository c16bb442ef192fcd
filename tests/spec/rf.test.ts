import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { after, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { until } from "@roamfleet/clock/testing";
import { appBundle, DIES } from "../processes/app-bundle.ts";
import { documentOf, RfHome, type RfCall, type RfResult } from "../processes/rf.ts";
import { httpOf, realRobot, sharedPlane } from "./spec-plane.ts";

const LIMIT = { timeout: 240_000 };
const plane = await sharedPlane();
const http = httpOf(plane);
const robot = await realRobot(plane);
const home = await RfHome.make();
after(() => home[Symbol.asyncDispose]());
const env = { ROAMFLEET_TOKEN: plane.default_org.admin_token, ROAMFLEET_BASE_URL: plane.url };

const rf = (args: string[], call: RfCall = {}): Promise<RfResult> => home.run(args, { ...call, env: { ...env, ...call.env } });

/** Runs a command that must succeed, and returns the JSON document that it prints. */
async function json<T = { data: Record<string, unknown> }>(...args: string[]): Promise<T> {
  const result = await rf(["--json", ...args]);
  assert.equal(result.code, 0, `${args.join(" ")}: ${result.stdout} ${result.stderr}`);
  return documentOf(result) as T;
}

/** Checks that a list's table contains each text, and that --json prints the route's response. */
async function showsList(args: string[], route: string, ...texts: string[]): Promise<void> {
  const shown = await rf(args);
  assert.equal(shown.code, 0, shown.stderr);
  for (const text of texts) assert.ok(shown.stdout.includes(text), `${text} is in\n${shown.stdout}`);
  const stable = (body: unknown): unknown =>
    JSON.parse(JSON.stringify(body, (key, value: unknown) => (/^(last_seen_at|updated_at)$/.test(key) ? null : value)));
  let both: unknown[] = [];
  const isSame = async (): Promise<boolean> => {
    both = [stable(await json(...args)), stable((await http.get(route)).body)];
    return isDeepStrictEqual(both[0], both[1]);
  };
  // The robot may have reported new data between the two requests.
  await until("both to show the same", isSame, { detail: () => JSON.stringify(both) });
}

async function fileOf(name: string, bytes: Buffer): Promise<string> {
  const file = path.join(home.directory, name);
  await writeFile(file, bytes);
  return file;
}

const good = await fileOf("hello-1.0.0.tar.gz", await appBundle());
const pushed = await json("releases", "push", good, "--kind", "app_bundle");

test("rf robots list shows the robots", LIMIT, () => showsList(["robots", "list"], "/api/robots", robot.id, "arm-1", "online"));

test("rf robots inspect shows the health snapshot", LIMIT, async () => {
  await plane.until("a snapshot", async () => (await http.get(`/api/robots/${robot.id}/health`)).status === 200);
  const shown = await rf(["robots", "inspect", robot.id]);
  assert.match(shown.stdout, /CPU[\s\S]*Memory/);
  assert.equal((await json("robots", "inspect", robot.id)).data.robot_id, robot.id);
  assert.equal((await rf(["robots", "inspect", "rob_none"])).code, 5);
});

test("rf robots timeline shows the robot's events", LIMIT, () =>
  showsList(["robots", "timeline", robot.id], `/api/robots/${robot.id}/timeline`, "robot.connected", "robot.enrolled"),
);

test("rf robots show prints the details of one robot", LIMIT, async () => {
  assert.match((await rf(["robots", "show", robot.id])).stdout, /arm-1[\s\S]*line=3/);
});

test("rf robots logs prints the latest batch of log records", LIMIT, async () => {
  await plane.until("records", async () => (await http.get(`/api/robots/${robot.id}/logs`)).items.length > 0);
  const { items } = await json<{ items: { robot_id: string; message: string }[] }>("robots", "logs", robot.id);
  assert.ok(items.length > 0 && items.every(({ robot_id }) => robot_id === robot.id));
  assert.ok((await rf(["robots", "logs", robot.id])).stdout.includes(items[0]?.message ?? "?"));
});

test("rf robots logs --follow prints records as JSON lines until Ctrl-C, with exit code 130", LIMIT, async () => {
  let interrupted = false;
  const followed = await rf(["robots", "logs", robot.id, "--follow", "--json"], {
    on_output: (child, text) => {
      if (!interrupted && text.includes("\n")) interrupted = child.kill("SIGINT");
    },
  });
  assert.equal(followed.code, 130, followed.stderr);
  const lines = followed.stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { robot_id: string });
  assert.ok(lines.length > 0 && lines.every(({ robot_id }) => robot_id === robot.id));
});

test("rf robots logs --follow of an offline robot exits with 7 and prints agent offline", LIMIT, async () => {
  const away = await plane.enrollRobot({ online: false });
  for (const args of [[], ["--json"]]) {
    const followed = await rf(["robots", "logs", away.id, "--follow", ...args]);
    assert.equal(followed.code, 7);
    assert.ok(followed.stderr.split("\n").includes("agent offline"), followed.stderr);
    assert.equal(followed.stdout, "");
  }
});

test("rf releases list shows the releases", LIMIT, () => showsList(["releases", "list"], "/api/releases", "hello-1.0.0", "app_bundle"));

test("rf releases push uploads a file with its digest and size, and accepts tag, notes and kind", LIMIT, async () => {
  const bytes = await appBundle("exit 0");
  const file = await fileOf("nav.bin", bytes);
  const { data } = await json("releases", "push", file, "--tag", "nav-9", "--notes", "as told", "--kind", "file");
  assert.deepEqual(
    [data.tag, data.notes, data.kind, data.artifact_size, data.artifact_sha256, data.artifact_state],
    ["nav-9", "as told", "file", bytes.length, hash("sha256", bytes), "stored"],
  );
  const again = await json("releases", "push", file, "--tag", "nav-9", "--notes", "as told", "--kind", "file");
  assert.equal(again.data.id, data.id);
  const other = await fileOf("other.bin", Buffer.from("other"));
  assert.equal((await rf(["releases", "push", other, "--tag", "nav-9", "--kind", "file"])).code, 6);
  assert.equal((await rf(["releases", "push", path.join(home.directory, "none")])).code, 1);
  assert.match((await rf(["releases", "show", String(data.id)])).stdout, /nav-9/);
});

test("rf releases push defaults the tag to the file's name without extension, and the kind to container_image", LIMIT, async () => {
  for (const [name, tag] of [
    ["app-1.2.0", "app-1.2.0"],
    ["app-1.2.1.tar.gz", "app-1.2.1"],
    ["app-1.2.2.tgz", "app-1.2.2"],
    ["image.tar", "image"],
    ["plain", "plain"],
    ["firmware.v2.bin", "firmware.v2"],
  ] as const) {
    const { data } = await json("releases", "push", await fileOf(name, Buffer.from(name)));
    assert.deepEqual([data.tag, data.kind], [tag, "container_image"]);
  }
  assert.equal(pushed.data.tag, "hello-1.0.0");
});

test("rf deploy requires exactly one of --robot and --fleet", LIMIT, async () => {
  const one = await json("deploy", "hello-1.0.0", "--robot", robot.id);
  assert.deepEqual([one.data.target_kind, one.data.robot_id], ["robot", robot.id]);
  const all = await json("deploy", String(pushed.data.id), "--fleet", robot.fleet_id);
  assert.deepEqual([all.data.target_kind, all.data.fleet_id], ["fleet", robot.fleet_id]);
  for (const args of [[], ["--robot", robot.id, "--fleet", robot.fleet_id]]) {
    const refused = await rf(["deploy", "hello-1.0.0", ...args]);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /--robot.*--fleet|--fleet.*--robot/s);
  }
  assert.equal((await rf(["deploy", "none", "--robot", robot.id])).code, 5);
});

test("rf deploy with the same --idempotency-key twice creates one deployment", LIMIT, async () => {
  const args = ["deploy", "hello-1.0.0", "--robot", robot.id];
  const [a, b] = [
    await json(...args, "--idempotency-key", "2c7a9c0e-5a52-4a9e-9d5e-0f3a0c6b7d11"),
    await json(...args, "--idempotency-key", "2c7a9c0e-5a52-4a9e-9d5e-0f3a0c6b7d11"),
  ];
  assert.deepEqual(a, b);
  assert.notEqual((await json(...args)).data.id, (await json(...args)).data.id);
  const changed = await rf([
    "deploy",
    "hello-1.0.0",
    "--fleet",
    robot.fleet_id,
    "--idempotency-key",
    "2c7a9c0e-5a52-4a9e-9d5e-0f3a0c6b7d11",
  ]);
  assert.equal(changed.code, 6);
});

test("rf deploy --scheduled-at creates a deployment that can be cancelled before its time", LIMIT, async () => {
  const at = new Date(Date.now() + 3_600_000).toISOString();
  const { data } = await json("deploy", "hello-1.0.0", "--robot", robot.id, "--scheduled-at", at);
  assert.deepEqual([data.status, data.scheduled_at], ["scheduled", at]);
  assert.match((await rf(["deployments", "list", "--status", "scheduled"])).stdout, new RegExp(String(data.id)));
  assert.match((await rf(["deployments", "show", String(data.id)])).stdout, /scheduled/);
  assert.equal((await json("deployments", "cancel", String(data.id))).data.status, "cancelled");
  assert.equal((await rf(["deployments", "cancel", String(data.id)])).code, 6);
  assert.equal((await rf(["deploy", "hello-1.0.0", "--robot", robot.id, "--scheduled-at", "tomorrow"])).code, 1);
});

test("rf deploy --watch waits for the end and exits with 0 if applied, and with 8 otherwise", LIMIT, async () => {
  // Separate apps, because releases of `main` from the deployments above are still being verified.
  const map = await fileOf("map-2.bin", Buffer.from("a map"));
  await json("releases", "push", map, "--kind", "file", "--app", "map");
  const { data } = await json("deploy", "map-2", "--robot", robot.id, "--watch");
  assert.deepEqual([data.status, typeof data.finished_at], ["applied", "string"]);
  const bad = await fileOf("bad-3.tar.gz", await appBundle(DIES));
  await json("releases", "push", bad, "--kind", "app_bundle", "--app", "bad");
  const failed = await rf(["deploy", "bad-3", "--robot", robot.id, "--watch"]);
  assert.equal(failed.code, 8, failed.stderr);
  assert.match(failed.stderr, /failed: (crash_loop|health_check_failed)/);
  assert.match(failed.stdout, /queued[\s\S]*in_progress[\s\S]*failed/);
  const watched = await rf(["deployments", "list", "--limit", "1", "--json"]);
  const id = (documentOf(watched) as { items: { id: string }[] }).items[0]?.id ?? "";
  assert.equal((await rf(["deployments", "watch", id, "--json"])).code, 8);
});

test("rf deploy --watch exits with 130 on Ctrl-C, and the deployment continues", LIMIT, async () => {
  const away = await plane.enrollRobot({ online: false });
  let interrupted = false;
  const watched = await rf(["deploy", "hello-1.0.0", "--robot", away.id, "--watch"], {
    on_output: (child, text) => {
      if (!interrupted && /queued|waiting/.test(text)) interrupted = child.kill("SIGINT");
    },
  });
  assert.equal(watched.code, 130, watched.stderr);
  assert.match(watched.stderr, /continues/);
  const [left] = (await http.get(`/api/deployments?robot_id=${away.id}`)).items;
  assert.equal(left?.finished_at, null);
});

test("rf configs set accepts JSON, and other text as a string", LIMIT, async () => {
  for (const [text, value] of [
    ["1.5", 1.5],
    ["true", true],
    ["null", null],
    ['{"a":[1]}', { a: [1] }],
    ['"quoted"', "quoted"],
    ["plain text", "plain text"],
    ["{broken", "{broken"],
  ] as const) {
    assert.deepEqual((await json("configs", "set", "any", text)).data.value, value);
  }
  assert.equal((await json("configs", "set", "k", "1", "--namespace", "navigation")).data.namespace, "navigation");
});

test("rf configs set --fleet and --robot set and deploy a value for that target only", LIMIT, async () => {
  type Both = { data: { config: Record<string, unknown>; deployment: Record<string, unknown> } };
  const fleet = (await json<Both>("configs", "set", "speed", "2", "--fleet", robot.fleet_id)).data;
  assert.deepEqual([fleet.config.scope, fleet.config.scope_id, fleet.deployment.fleet_id], ["fleet", robot.fleet_id, robot.fleet_id]);
  const one = (await json<Both>("configs", "set", "speed", "3", "--robot", robot.id)).data;
  assert.deepEqual([one.config.scope, one.config.scope_id, one.deployment.robot_id], ["robot", robot.id, robot.id]);
  await plane.until(
    "the config to be applied",
    async () => (await http.get(`/api/configs/deployments/${String(one.deployment.id)}`)).data.status === "applied",
  );
  const other = await plane.enrollRobot();
  const effective = (await http.get(`/api/robots/${other.id}/config`)).data.effective as { key: string }[];
  assert.ok(!effective.some(({ key }) => key === "speed"), "no other robot ever gets the value");
  assert.equal((await rf(["configs", "set", "a", "1", "--robot", robot.id, "--fleet", robot.fleet_id])).code, 2);
});

test("rf configs list shows the config entries", LIMIT, () => showsList(["configs", "list"], "/api/configs", "any", "navigation"));

test("rf configs deployments lists the config deployments", LIMIT, () =>
  showsList(["configs", "deployments"], "/api/configs/deployments", robot.id, "applied"),
);

test("rf configs events lists the events of one config deployment", LIMIT, async () => {
  const [last] = (await http.get("/api/configs/deployments?status=applied")).items;
  await showsList(["configs", "events", String(last?.id)], `/api/configs/deployments/${String(last?.id)}/events`, "applied");
  assert.equal((await rf(["configs", "events", "cdep_none"])).code, 5);
});

test("rf sites list shows the sites", LIMIT, () => showsList(["sites", "list"], "/api/sites", robot.site_id));

test("rf sites create creates a site", LIMIT, async () => {
  assert.equal((await json("sites", "create", "Halle 7")).data.name, "Halle 7");
  assert.match((await rf(["sites", "create", "Halle 8"])).stdout, /Halle 8: site_/);
});

test("rf fleets list shows the fleets", LIMIT, () => showsList(["fleets", "list"], "/api/fleets", robot.fleet_id));

test("rf fleets create requires --site and creates a fleet at that site", LIMIT, async () => {
  assert.deepEqual((await json("fleets", "create", "Kiosks", "--site", robot.site_id)).data.site_id, robot.site_id);
  assert.equal((await rf(["fleets", "create", "Kiosks"])).code, 2);
  assert.equal((await rf(["fleets", "create", "Kiosks", "--site", "site_none"])).code, 5);
});

test("rf fleets logs shows the logs of the fleet's robots", LIMIT, async () => {
  const { items } = await json<{ items: { robot_id: string }[] }>("fleets", "logs", robot.fleet_id);
  assert.ok(items.length > 0 && items.every(({ robot_id }) => robot_id === robot.id));
});

test("rf keys new creates an enrollment key with label, uses and expiry, and shows it once", LIMIT, async () => {
  const place = ["--site", robot.site_id, "--fleet", robot.fleet_id];
  const { data } = await json("keys", "new", ...place, "--label", "line 3", "--max-uses", "7", "--expires-in-hours", "0");
  assert.deepEqual([data.label, data.max_uses, data.expires_at], ["line 3", 7, null]);
  assert.match(String(data.key), /^rf_enroll_[0-9a-f]{64}$/);
  assert.match((await rf(["keys", "new", ...place])).stdout, /rf_enroll_[0-9a-f]{64}/);
  assert.equal((await rf(["keys", "new", "--site", robot.site_id])).code, 2);
});

test("rf keys list shows enrollment keys without their secrets", LIMIT, async () => {
  await showsList(["keys", "list"], "/api/enrollment-keys", "line 3", "active");
  assert.doesNotMatch((await rf(["keys", "list"])).stdout, /rf_enroll_/);
});

test("rf keys revoke revokes an enrollment key, and is idempotent", LIMIT, async () => {
  const key = (await http.post("/api/enrollment-keys", { site_id: robot.site_id, fleet_id: robot.fleet_id })).data;
  for (let times = 0; times < 2; times += 1) assert.equal((await json("keys", "revoke", String(key.id))).data.status, "revoked");
  assert.equal((await rf(["keys", "revoke", "key_none"])).code, 5);
});
