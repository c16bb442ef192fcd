import assert from "node:assert/strict";
import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { ADMIN_TOKEN } from "../harness/index.ts";
import { documentOf, RfHome } from "../processes/rf.ts";
import { httpOf, sharedPlane } from "./spec-plane.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();
const token = plane.default_org.admin_token;

test("rf login saves the token and the address in a TOML file that only this user can read", LIMIT, async () => {
  await using home = await RfHome.make();
  const done = await home.run(["login", "--token", token, "--base-url", plane.url]);
  assert.deepEqual([done.code, done.stderr], [0, ""]);
  assert.ok(!done.stdout.includes(token));
  const file = await readFile(home.credentials_file, "utf8");
  assert.ok(file.includes(`token = "${token}"`) && file.includes(`base_url = "${plane.url}"`), file);
  assert.equal((await stat(home.credentials_file)).mode & 0o777, 0o600);
  assert.equal((await home.run(["sites", "list"])).code, 0);
});

test("rf login without --token and without a terminal reads the token from stdin", LIMIT, async () => {
  await using home = await RfHome.make();
  const done = await home.run(["login", "--base-url", plane.url], { stdin: `${token}\n` });
  assert.equal(done.code, 0, done.stderr);
  assert.ok((await readFile(home.credentials_file, "utf8")).includes(token));
  assert.equal((await home.run(["login", "--base-url", plane.url], { stdin: "" })).code, 2);
});

test("rf login preserves comments and other content of the config file, and --profile adds a table", LIMIT, async () => {
  await using home = await RfHome.make();
  await mkdir(path.dirname(home.credentials_file), { recursive: true });
  await writeFile(home.credentials_file, '# mine\ncolor = "blue"\ntoken = "rf_user_old" # old\n');
  await chmod(home.credentials_file, 0o644);
  assert.equal((await home.run(["login", "--token", token, "--base-url", plane.url])).code, 0);
  assert.equal((await home.run(["login", "--token", token, "--base-url", plane.url, "--profile", "lab"])).code, 0);
  const file = await readFile(home.credentials_file, "utf8");
  assert.ok(file.includes("# mine") && file.includes('color = "blue"') && /\[profiles\.lab\]/.test(file), file);
  assert.ok(!file.includes("rf_user_old"));
  assert.equal((await stat(home.credentials_file)).mode & 0o777, 0o600);
  assert.equal((await home.run(["whoami", "--profile", "lab"])).code, 0);
});

test("rf login with a refused token exits with 4 and leaves the config file unchanged", LIMIT, async () => {
  await using home = await RfHome.make();
  await home.run(["login", "--token", token, "--base-url", plane.url]);
  const before = await readFile(home.credentials_file, "utf8");
  const refused = await home.run(["login", "--token", `rf_user_${"0".repeat(64)}`, "--base-url", plane.url]);
  assert.equal(refused.code, 4);
  assert.match(refused.stderr, /^error: /);
  assert.equal(await readFile(home.credentials_file, "utf8"), before);
});

test("rf login with an unreachable server saves the token and prints a warning", LIMIT, async () => {
  await using home = await RfHome.make();
  const done = await home.run(["login", "--token", token, "--base-url", "http://127.0.0.1:9"]);
  assert.equal(done.code, 0);
  assert.match(done.stderr, /warning/);
  assert.ok((await readFile(home.credentials_file, "utf8")).includes("http://127.0.0.1:9"));
});

test("flags and environment variables of rf take precedence over its config file", LIMIT, async () => {
  await using home = await RfHome.make();
  await mkdir(path.dirname(home.credentials_file), { recursive: true });
  await writeFile(home.credentials_file, `token = '${token}'\nbase_url = "http://127.0.0.1:9"\n`);
  assert.equal((await home.run(["whoami"])).code, 1);
  assert.equal((await home.run(["whoami", "--base-url", plane.url])).code, 0);
  assert.equal((await home.run(["--base-url", plane.url, "whoami"])).code, 0);
  assert.equal((await home.run(["whoami"], { env: { ROAMFLEET_BASE_URL: plane.url } })).code, 0);
  const other = await plane.org("Elsewhere");
  const { stdout } = await home.run(["whoami", "--json"], { env: { ROAMFLEET_BASE_URL: plane.url, ROAMFLEET_TOKEN: other.admin_token } });
  assert.equal((JSON.parse(stdout) as { data: { org: { name: string } } }).data.org.name, "Elsewhere");
  assert.equal((await home.run(["whoami", "--base-url", plane.url, "--org", other.id])).code, 4, "an org that the token is no member of");
});

test("rf logout deletes the config file, but does not revoke the token", LIMIT, async () => {
  await using home = await RfHome.make();
  await home.run(["login", "--token", token, "--base-url", plane.url]);
  assert.equal((await home.run(["logout"])).code, 0);
  await assert.rejects(stat(home.credentials_file));
  assert.equal((await home.run(["logout"])).code, 0);
  assert.equal((await httpOf(plane).get("/api/me")).status, 200);
  const out = await home.run(["robots", "list", "--base-url", plane.url]);
  assert.equal(out.code, 4);
  assert.match(out.stderr, /rf login/);
});

test("rf whoami prints the org and the role", LIMIT, async () => {
  await using home = await RfHome.make();
  const env = { ROAMFLEET_TOKEN: token, ROAMFLEET_BASE_URL: plane.url };
  const printed = await home.run(["whoami"], { env });
  assert.match(printed.stdout, /Default[\s\S]*admin/);
  const document = documentOf(await home.run(["whoami", "--json"], { env })) as { data: { org: { id: string } } };
  assert.equal(document.data.org.id, plane.default_org.id);
});

test("rf orgs creates, lists and approves orgs with the admin token, and exits with 4 without it", LIMIT, async () => {
  await using home = await RfHome.make();
  const env = { ROAMFLEET_BASE_URL: plane.url, ROAMFLEET_ADMIN_TOKEN: ADMIN_TOKEN };
  const made = documentOf(await home.run(["orgs", "create", "By rf", "--json"], { env })) as { data: { id: string } };
  const approved = documentOf(await home.run(["orgs", "approve", made.data.id, "--json"], { env })) as { data: { token: string } };
  assert.match(approved.data.token, /^rf_org_[0-9a-f]{64}$/);
  assert.equal((await home.run(["orgs", "approve", made.data.id], { env })).code, 6);
  assert.match((await home.run(["orgs", "list"], { env })).stdout, /By rf/);
  assert.equal((await home.run(["orgs", "list"], { env: { ROAMFLEET_BASE_URL: plane.url } })).code, 4);
});

test("rf api calls any route and prints the response", LIMIT, async () => {
  await using home = await RfHome.make();
  const env = { ROAMFLEET_TOKEN: token, ROAMFLEET_BASE_URL: plane.url };
  const listed = await home.run(["api", "GET", "/api/sites"], { env });
  assert.ok("items" in (JSON.parse(listed.stdout) as object));
  const missing = await home.run(["api", "GET", "/api/sites/none", "--json"], { env });
  assert.equal(missing.code, 5);
  assert.equal((JSON.parse(missing.stdout) as { error: { code: string } }).error.code, "not_found");
});

test("rf exits with the documented codes 0, 1, 2, 4, 5 and 6, and --json prints the error's body", LIMIT, async () => {
  await using home = await RfHome.make();
  const env = { ROAMFLEET_TOKEN: token, ROAMFLEET_BASE_URL: plane.url };
  await plane.api.createSite({ body: { name: "Taken" } });
  const viewer = await plane.token({ role: "viewer" });
  const cases: [code: number, args: string[], more?: Record<string, string>][] = [
    [0, ["sites", "list"]],
    [1, ["sites", "list"], { ROAMFLEET_BASE_URL: "http://127.0.0.1:9" }],
    [2, ["sites", "create"]],
    [2, ["sites", "list", "--unknown"]],
    [2, ["nonsense"]],
    [2, ["keys", "new", "--site", "s", "--fleet", "f", "--max-uses", "many"]],
    [4, ["sites", "list"], { ROAMFLEET_TOKEN: `rf_user_${"0".repeat(64)}` }],
    [4, ["sites", "create", "x"], { ROAMFLEET_TOKEN: viewer }],
    [5, ["robots", "show", "rob_none"]],
    [6, ["sites", "create", "Taken"]],
  ];
  for (const [code, args, more = {}] of cases) {
    const result = await home.run([...args, "--json"], { env: { ...env, ...more } });
    assert.equal(result.code, code, `${args.join(" ")}: ${result.stderr}`);
    const document = documentOf(result) as { error?: { code: string; message: string } };
    assert.equal("error" in document, code !== 0, args.join(" "));
    assert.equal(result.stderr === "", code === 0);
    assert.doesNotMatch(result.stderr, /\n\s+at /, "no stack");
  }
});

test("--help of rf, of a noun and of a command exits with 0 and prints to stdout", LIMIT, async () => {
  await using home = await RfHome.make();
  for (const args of [["--help"], ["robots", "--help"], ["deploy", "--help"], ["help", "exit-codes"]]) {
    const { code, stdout, stderr } = await home.run(args);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.ok(stdout.length > 100);
  }
});
