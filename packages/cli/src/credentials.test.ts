import assert from "node:assert/strict";
import { mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { readEnvironment } from "./config.ts";
import { loginTarget } from "./credentials.ts";
import { RfHome } from "./testing/run-rf.ts";
import { ScriptedPeer } from "./testing/scripted-peer.ts";

const TIMEOUT = { timeout: 120_000 };
const org = { id: "org_1", name: "Acme", role: "admin" };
const me = {
  data: {
    actor: { type: "user", id: "usr_1", name: "Ada" },
    token: { id: "tok_1", label: null, prefix: "rf_user_0123", expires_at: null },
    org,
    orgs: [{ ...org, default: true }],
    scopes: [],
  },
};
const refusal = { error: { code: "unauthorized", message: "this token is not valid" } };

/** A service that accepts every token except `bad`. */
const startService = (): Promise<ScriptedPeer> =>
  ScriptedPeer.start(({ headers }) => (headers.authorization === "Bearer bad" ? { status: 401, body: refusal } : { body: me }));

async function saved(home: RfHome, text: string): Promise<void> {
  await mkdir(path.dirname(home.credentials_file), { recursive: true });
  await writeFile(home.credentials_file, text);
}

test("rf login verifies the token and saves it with mode 0600", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await startService();
  const { code, stdout } = await home.run(["login", "--token", "rf_user_a", "--base-url", `${service.base_url}/`]);
  assert.equal(code, 0);
  assert.match(stdout, /as Ada \(admin of Acme\)/);
  assert.equal(await readFile(home.credentials_file, "utf8"), `token = "rf_user_a"\nbase_url = "${service.base_url}"\n`);
  assert.equal((await stat(home.credentials_file)).mode & 0o777, 0o600);
  assert.deepEqual(service.lines, ["GET /api/me"]);
  const who = await home.run(["whoami"]);
  assert.equal(who.code, 0);
  assert.match(who.stdout, /Ada \(usr_1\)/);
});

test("rf login without a terminal reads the token from stdin", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await startService();
  const { code } = await home.run(["login"], { stdin: "rf_user_piped\n", env: { ROAMFLEET_BASE_URL: service.base_url } });
  assert.equal(code, 0);
  assert.match(await readFile(home.credentials_file, "utf8"), /^token = "rf_user_piped"$/m);
  const empty = await home.run(["login"], { stdin: "" });
  assert.deepEqual([empty.code, /no token was given/.test(empty.stderr)], [2, true]);
});

test("rf login --no-token saves only the address and removes the token of another address", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await startService();
  await home.run(["login", "--token", "rf_user_a", "--base-url", service.base_url]);
  const asked = service.lines.length;
  const { code, stdout } = await home.run(["login", "--no-token", "--base-url", "http://127.0.0.1:1"]);
  assert.equal(code, 0);
  assert.match(stdout, /^Saved to .* for http:\/\/127\.0\.0\.1:1\. No token yet/);
  assert.equal(await readFile(home.credentials_file, "utf8"), 'base_url = "http://127.0.0.1:1"\n');
  assert.equal(service.lines.length, asked);
});

test("rf login exits 4 and keeps the credentials file when the token is refused", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await startService();
  await saved(home, `# mine\ntoken = "old"\n`);
  const { code, stdout, stderr } = await home.run(["login", "--token", "bad", "--base-url", service.base_url, "--json"]);
  assert.equal(code, 4);
  assert.deepEqual(JSON.parse(stdout), refusal);
  assert.match(stderr, /refused this token/);
  assert.equal(await readFile(home.credentials_file, "utf8"), `# mine\ntoken = "old"\n`);
});

test("rf login saves the token with a warning when the service is unreachable or fails", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(() => ({
    status: 500,
    body: { error: { code: "internal_server_error", message: "oh" } },
  }));
  const other = await home.run(["login", "--token", "a", "--base-url", service.base_url]);
  assert.equal(other.code, 0);
  assert.match(other.stderr, /^warning: oh; the token was saved without verification/);
  const gone = await home.run(["login", "--token", "b", "--base-url", "http://127.0.0.1:1"]);
  assert.equal(gone.code, 0);
  assert.match(gone.stderr, /^warning: cannot reach/);
  assert.match(await readFile(home.credentials_file, "utf8"), /^token = "b"$/m);
});

test("rf login uses the local server by default", async () => {
  await using home = await RfHome.make();
  const environment = readEnvironment({ XDG_CONFIG_HOME: home.directory });
  assert.equal((await loginTarget({}, environment)).base_url, "http://127.0.0.1:7600");
  await saved(home, `base_url = "https://saved.example"\n`);
  assert.deepEqual(await loginTarget({ profile: "new" }, environment), { profile: "new", base_url: "https://saved.example" });
});

test("rf login preserves comments, unknown keys and profiles of a symlinked credentials file", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await startService();
  const real = path.join(home.directory, "dotfiles.toml");
  await writeFile(real, `# work\ntoken = "old" # rotate me\ncolor = "blue"\n\n[profiles.lab]\ntoken = "lab"\n`);
  await mkdir(path.dirname(home.credentials_file));
  await symlink(real, home.credentials_file);
  await home.run(["login", "--token", "new", "--base-url", service.base_url]);
  await home.run(["login", "--token", "lab2", "--profile", "lab", "--base-url", service.base_url]);
  const url = `base_url = "${service.base_url}"\n`;
  assert.equal(
    await readFile(real, "utf8"),
    `# work\ntoken = "new" # rotate me\ncolor = "blue"\n${url}\n[profiles.lab]\ntoken = "lab2"\n${url}`,
  );
});

test("reports an invalid credentials file without printing or overwriting its content", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await startService();
  await saved(home, `token = "rf_user_secret\n`);
  for (const args of [["whoami"], ["login", "--token", "x", "--base-url", service.base_url]]) {
    const { code, stderr } = await home.run(args);
    assert.equal(code, 1);
    assert.match(stderr, /credentials\.toml is not valid TOML \(line 1\)/);
    assert.doesNotMatch(stderr, /secret/);
  }
  assert.equal(await readFile(home.credentials_file, "utf8"), `token = "rf_user_secret\n`);
  assert.equal((await home.run(["whoami"], { env: service.env })).code, 0, "with everything in the environment the file is not needed");
});

test("resolves each setting from flag, environment, profile and credentials file, in this order", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await startService();
  const nowhere = "http://127.0.0.1:1";
  await saved(
    home,
    `token = "file"\nbase_url = "${nowhere}"\norg = "org_file"\n[profiles.lab]\ntoken = "lab"\nbase_url = "${service.base_url}"\n`,
  );
  const asked = async (args: string[], env: Record<string, string>): Promise<unknown[]> => {
    assert.equal((await home.run(["whoami", ...args], { env })).code, 0);
    const { headers } = service.asked.at(-1)!;
    return [headers.authorization, headers["x-service-org-id"]];
  };
  assert.deepEqual(await asked(["--profile", "lab"], {}), ["Bearer lab", "org_file"]);
  assert.deepEqual(await asked([], { ROAMFLEET_PROFILE: "lab" }), ["Bearer lab", "org_file"]);
  assert.deepEqual(await asked(["--profile", "lab"], { ROAMFLEET_TOKEN: "env", ROAMFLEET_ORG: "org_env" }), ["Bearer env", "org_env"]);
  assert.deepEqual(
    await asked(["--base-url", service.base_url, "--org", "org_flag"], { ROAMFLEET_BASE_URL: nowhere, ROAMFLEET_ORG: "org_env" }),
    ["Bearer file", "org_flag"],
  );
  assert.deepEqual(await asked([], { ROAMFLEET_BASE_URL: service.base_url, ROAMFLEET_TOKEN: "" }), ["Bearer file", "org_file"]);
  const unreachable = await home.run(["whoami"]);
  assert.equal(unreachable.code, 1);
  assert.match(unreachable.stderr, /cannot reach http:\/\/127\.0\.0\.1:1[^]*The address is from .*credentials\.toml/);
});

test("sends the token of the default profile only to the address of the default profile", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await startService();
  await using other = await startService();
  await saved(
    home,
    `token = "top"\nbase_url = "${service.base_url}"\n[profiles.lab]\nbase_url = "${other.base_url}"\n` +
      `[profiles.same]\nbase_url = "${service.base_url}/"\n[profiles.org]\norg = "org_2"\n`,
  );
  for (const [args, env] of [
    [["--profile", "lab"], {}],
    [[], { ROAMFLEET_PROFILE: "lab" }],
    // Passing the profile's own address again changes nothing.
    [["--profile", "lab", "--base-url", other.base_url], {}],
  ] as const) {
    const { code, stderr } = await home.run(["whoami", ...args], { env });
    assert.equal(code, 4);
    assert.match(stderr, /not logged in[^]*rf login --profile lab/);
  }
  assert.deepEqual(other.asked, []);
  const { stdout: listed } = await home.run(["profiles", "list", "--json"]);
  assert.deepEqual(
    (JSON.parse(listed) as { items: { name: string; token_prefix: string | null }[] }).items.map((one) => [one.name, one.token_prefix]),
    [
      ["default", "top"],
      ["lab", null],
      ["same", "top"],
      ["org", "top"],
    ],
  );
  for (const profile of ["same", "org"]) {
    assert.equal((await home.run(["whoami", "--profile", profile])).code, 0);
    assert.equal(service.asked.at(-1)?.headers.authorization, "Bearer top", profile);
  }
  // A default profile without an address uses the default address.
  await saved(home, `token = "top"\n[profiles.lab]\nbase_url = "${other.base_url}"\n`);
  assert.equal((await home.run(["whoami", "--profile", "lab"])).code, 4);
  assert.deepEqual(other.asked, []);
});

test("sends a saved token only to the origin for which it was saved", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await startService();
  await saved(
    home,
    `token = "top"\nbase_url = "https://fleet.example.org"\n[profiles.lab]\ntoken = "lab"\nbase_url = "http://10.0.0.9:7600"\n`,
  );
  for (const [args, env, origin] of [
    [["--base-url", service.base_url], {}, "https://fleet.example.org"],
    [[], { ROAMFLEET_BASE_URL: service.base_url }, "https://fleet.example.org"],
    [["--profile", "lab", "--base-url", service.base_url], {}, "http://10.0.0.9:7600"],
    [["--base-url", "http://fleet.example.org"], {}, "https://fleet.example.org"],
    [["--base-url", "https://fleet.example.org:8443"], {}, "https://fleet.example.org"],
  ] as const) {
    const { code, stderr } = await home.run(["whoami", ...args], { env });
    assert.equal(code, 4, stderr);
    assert.ok(stderr.includes(`the saved token is for ${origin} and is not sent to`), stderr);
  }
  assert.equal(service.asked.length, 0);
  const named = await home.run(["whoami", "--base-url", service.base_url], { env: { ROAMFLEET_TOKEN: "env" } });
  assert.equal(named.code, 0);
  assert.deepEqual(
    service.asked.map(({ headers }) => headers.authorization),
    ["Bearer env"],
  );
});

test("rejects an invalid token without printing it, and strips a trailing line ending", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await using service = await startService();
  const whoami = (ROAMFLEET_TOKEN: string) => home.run(["whoami"], { env: { ...service.env, ROAMFLEET_TOKEN } });
  assert.equal((await whoami("rf_user_a\r\n")).code, 0);
  assert.equal(service.asked.at(-1)?.headers.authorization, "Bearer rf_user_a");
  for (const token of ["rf_user_secret\nrf_user_b", "rf_user_secret b", "rf_user_secretł"]) {
    const { code, stderr } = await whoami(token);
    assert.deepEqual([code, stderr.includes("secret")], [2, false], stderr);
    assert.match(stderr, /the token contains spaces or characters that are not valid in a token\n {2}The token is from ROAMFLEET_TOKEN/);
  }
  assert.equal(service.asked.length, 1);
});

test("rf logout deletes the credentials file and succeeds if there is none", TIMEOUT, async () => {
  await using home = await RfHome.make();
  await saved(home, `token = "x"\n`);
  const first = await home.run(["logout"]);
  const second = await home.run(["logout", "--json"]);
  await assert.rejects(stat(home.credentials_file), { code: "ENOENT" });
  assert.deepEqual([first.code, second.code, JSON.parse(second.stdout).data.deleted], [0, 0, false]);
});

test("rf login prints an error without a stack trace if the config directory is invalid", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const file = path.join(home.directory, "file");
  await writeFile(file, "");
  const { code, stderr } = await home.run(["login", "--token", "x", "--base-url", "http://127.0.0.1:1"], {
    env: { XDG_CONFIG_HOME: file },
  });
  assert.equal(code, 1);
  assert.match(stderr, /error: .*credentials\.toml: a part of the path is not a directory\n$/);
});
