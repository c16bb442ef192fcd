import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { RfHome } from "./testing/run-rf.ts";

const TIMEOUT = { timeout: 120_000 };
let home: RfHome;
before(async () => {
  home = await RfHome.make();
});
after(() => home[Symbol.asyncDispose]());

test("rf without arguments prints its help and exits 0", TIMEOUT, async () => {
  const { code, stdout, stderr } = await home.run([]);
  assert.equal(code, 0);
  assert.equal(stderr, "");
  for (const word of ["deploy", "robots", "releases", "configs", "sites", "fleets", "keys", "login", "logout"])
    assert.match(stdout, new RegExp(`^  ${word}\\b`, "m"));
});

test("every form of help lists a command's options", TIMEOUT, async () => {
  const [flag, word, inner] = await Promise.all([
    home.run(["robots", "logs", "--help"]),
    home.run(["help", "robots", "logs"]),
    home.run(["robots", "help", "logs"]),
  ]);
  assert.match(flag.stdout, /--follow/);
  assert.match(flag.stdout, /--base-url <url>/);
  assert.deepEqual([word.stdout, inner.stdout, word.code, inner.code], [flag.stdout, flag.stdout, 0, 0]);
});

test("rf help explains exit codes and environment variables", TIMEOUT, async () => {
  assert.match((await home.run(["help", "exit-codes"])).stdout, /7 {2}the robot is not connected/);
  assert.match((await home.run(["help", "environment"])).stdout, /ROAMFLEET_TOKEN/);
});

const wrong: [string[], RegExp][] = [
  [["robot"], /unknown command 'robot'\n {2}Did you mean robots\?/],
  [["robots", "lst"], /unknown command 'lst'\n {2}Did you mean list\?/],
  [["help", "nothing"], /unknown command 'nothing'/],
  [["robots", "list", "--limt", "3"], /unknown option '--limt'\n {2}Did you mean --limit\?/],
  [["robots", "list", "--limit", "x"], /whole number/],
  [["robots", "inspect"], /missing required argument 'id'/],
  [["robots", "list", "extra"], /too many arguments/],
  [["deploy", "1.0"], /a target is required: --robot <id>, --fleet <id>, --site <id> or --label <key=value>/],
  [["deploy", "1.0", "--robot", "a", "--label", "line=3"], /--robot and --label cannot be used together/],
  [["deploy", "1.0", "--label", "line"], /--label line is not a label/],
  [["deploy", "1.0", "--robot", "a", "--fleet", "b"], /cannot be used together/],
  [["configs", "set", "k", "v", "--robot", "a", "--fleet", "b"], /cannot be used together/],
  [["fleets", "create", "x"], /required option '--site <id>'/],
  [["keys", "new", "--site", "s"], /required option '--fleet <id>'/],
  [["keys", "new", "--site", "s", "--fleet", "f", "--max-uses", "-1"], /whole number/],
  [["releases", "push"], /the path of a file, or --image/],
  [["releases", "push", "--image", "nav:latest", "--tag", "1"], /sha256/],
  [["api", "FETCH", "/x"], /FETCH is not an HTTP method/],
  [["api", "GET", "http://elsewhere.example/"], /without the address/],
  [["api", "GET", "/x", "-F", "novalue"], /use key=value/],
  [["robots", "list", "--profile", "none"], /no profile none/],
  [["robots", "list", "--base-url", "localhost:1"], /not a valid address of a service/],
];
for (const [args, message] of wrong) {
  test(`rf ${args.join(" ")} exits 2 with a usage error`, TIMEOUT, async () => {
    const { code, stdout, stderr } = await home.run(args, { env: { ROAMFLEET_TOKEN: "t" } });
    assert.match(stderr, message);
    assert.match(stderr, /^error: /);
    assert.doesNotMatch(stderr, /\n\s+at /);
    assert.deepEqual([code, stdout], [2, ""]);
  });
}

test("rf --json prints an error as JSON on stdout and as text on stderr", TIMEOUT, async () => {
  const [used, offline] = await Promise.all([home.run(["--json", "deploy"]), home.run(["robots", "list", "--json"])]);
  assert.deepEqual(JSON.parse(used.stdout), { error: { code: "usage", message: "missing required argument 'release'" } });
  assert.match(used.stderr, /^error: missing/);
  assert.deepEqual([offline.code, JSON.parse(offline.stdout).error.code], [4, "unauthorized"]);
  assert.match(offline.stderr, /rf login/);
});

test("rf --version prints the version, with the commit and its date if known", TIMEOUT, async () => {
  assert.match((await home.run(["--version"])).stdout, /^\d+\.\d+\.\d+( \(commit [0-9a-f]{7}, \d{4}-\d{2}-\d{2}\))?\n$/);
});
