import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { Client } from "@roamfleet/sdk";
import { ROBOT_BACK_MS } from "../harness/deadlines.ts";
import { oneNodeOnly } from "../harness/nodes.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, pushBundle } from "../processes/app-bundle.ts";
import { Program } from "../processes/process.ts";
import { RfHome, type RfResult } from "../processes/rf.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 240_000, skip: oneNodeOnly("--tls auto makes an authority for each node") };
const FINGERPRINT = /sha256:[0-9a-f]{64}/;

/** Prints a line every 0.2 s until it is stopped. */
const SPEAKS = `trap "exit 0" TERM; while :; do echo "still up"; sleep 0.2; done`;

/** Returns the exit code and the output of a command. */
const outputOf = ({ code, stdout, stderr }: RfResult): string => `${code}: ${stdout}${stderr}`;

async function fingerprintOf(server: ServerProcess): Promise<string> {
  const program = new Program("packages/server/src/main.ts", ["fingerprint", "--data", server.data]);
  assert.equal((await program.ended).code, 0, program.output);
  return program.output.trim();
}

async function place(api: Client): Promise<{ site_id: string; fleet_id: string }> {
  const site_id = (await api.createSite({ body: { name: "Hall" } })).data.id;
  return { site_id, fleet_id: (await api.createFleet({ body: { name: "Carts", site_id } })).data.id };
}

/** The steps of a new user, all within a namespace: log in, create a key, enroll a robot, deploy. */
async function begin(server: ServerProcess, url: string, within: readonly string[]): Promise<void> {
  const fingerprint = await fingerprintOf(server);
  const { api, token } = await server.org("Acme");
  const { site_id, fleet_id } = await place(api);
  await using home = await RfHome.make();
  const rf = (args: string[], stdin = ""): Promise<RfResult> => home.run(args, { stdin, within });

  const unknown = await rf(["login", "--base-url", url], token);
  assert.equal(unknown.code, 4, outputOf(unknown));
  assert.ok(unknown.stderr.includes(`rf login --base-url ${url} --fingerprint ${fingerprint}`), outputOf(unknown));
  const wrong = await rf(["login", "--base-url", url, "--fingerprint", `sha256:${"0".repeat(64)}`], token);
  assert.equal(wrong.code, 4, outputOf(wrong));
  assert.ok(!readdirSync(home.directory).includes("roamfleet"), "nothing was saved");
  const login = await rf(["login", "--base-url", url, "--fingerprint", fingerprint], token);
  assert.equal(login.code, 0, outputOf(login));
  const saved = readFileSync(home.credentials_file, "utf8");
  assert.ok(saved.includes(`ca_fingerprint = "${fingerprint}"`), saved);
  const pem = path.join(home.directory, "roamfleet", "authorities", `${fingerprint.replace("sha256:", "")}.pem`);
  assert.equal(statSync(pem).mode & 0o777, 0o600);

  const made = await rf(["keys", "new", "--site", site_id, "--fleet", fleet_id]);
  const line = /rf-agent run .*/.exec(made.stdout)?.[0] ?? "";
  const words = line.split(" ");
  assert.ok(line.includes(`--server ${url} `) && line.endsWith(`--ca-fingerprint ${fingerprint}`), outputOf(made));
  const key = words[words.indexOf("--enroll-key") + 1] ?? "";

  await using stranger = new AgentProcess({ url, key, name: "stranger", within });
  assert.equal((await stranger.program.ended).code, 4, stranger.program.output);
  assert.ok(stranger.program.output.includes(`--ca-fingerprint ${fingerprint}`), stranger.program.output);
  await using robot = new AgentProcess({ url, key, name: "cart", within, args: ["--ca-fingerprint", fingerprint] });
  const listed = await robot.program.until("the robot to be online", async () => {
    const { items } = await api.listRobots();
    return items.find(({ status }) => status === "online");
  });

  const release = await pushBundle(api, "nav-1", await appBundle(SPEAKS));
  const deployed = await rf(["deploy", "nav-1", "--robot", listed.id, "--watch", "--verify", "1s"]);
  assert.equal(deployed.code, 0, outputOf(deployed));
  assert.equal((await api.getRobot({ params: { id: listed.id } })).data.current_release?.id, release);
  let seen = false;
  const logs = await home.run(["robots", "logs", listed.id, "--follow"], {
    within,
    on_output: (child, text) => {
      // A second Ctrl-C would kill rf.
      if (!seen && text.includes("still up")) child.kill("SIGINT");
      seen ||= text.includes("still up");
    },
  });
  assert.deepEqual([logs.code, seen], [130, true], outputOf(logs));
}

test("rf and the agent refuse the unknown certificate of --tls auto until its fingerprint is pinned", LIMIT, async () => {
  await using server = await ServerProcess.start({ args: ["--tls", "auto"] });
  const shown = FINGERPRINT.exec(server.program.output)?.[0];
  assert.equal(shown, await fingerprintOf(server));
  await begin(server, server.address, []);
});

test("rf and the agent refuse a changed certificate authority until its fingerprint is given", LIMIT, async () => {
  await using server = await ServerProcess.start({ args: ["--tls", "auto"] });
  const url = server.address;
  const { api, token } = await server.org("Acme");
  const { site_id, fleet_id } = await place(api);
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
  const first = await fingerprintOf(server);
  await using home = await RfHome.make();
  assert.equal((await home.run(["login", "--base-url", url, "--fingerprint", first], { stdin: token })).code, 0);
  await using robot = new AgentProcess({ url, key: key ?? "", name: "cart", args: ["--trust-on-first-use"] });
  await robot.program.until("the robot to connect", async () => (await api.listRobots()).items.some(({ status }) => status === "online"));
  assert.ok(robot.program.output.includes(first), "the log names what is trusted");

  await server.program.stop();
  rmSync(path.join(server.data, "tls"), { recursive: true });
  await server.restart();
  const second = await fingerprintOf(server);
  assert.notEqual(second, first);
  const refused = await home.run(["whoami"]);
  assert.equal(refused.code, 4, outputOf(refused));
  assert.ok(refused.stderr.includes("a different certificate authority") && refused.stderr.includes(first), outputOf(refused));
  const again = await home.run(["login", "--base-url", url], { stdin: token });
  assert.equal(again.code, 4, outputOf(again));
  assert.ok(again.stderr.includes(second) && again.stderr.includes(first), outputOf(again));
  const complains = () => robot.program.output.includes("another certificate authority than the pinned");
  await robot.program.until("the robot to complain", complains, { deadline_ms: ROBOT_BACK_MS });

  assert.equal((await home.run(["login", "--base-url", url, "--fingerprint", second], { stdin: token })).code, 0);
  assert.equal((await home.run(["whoami"])).code, 0);
  await robot.program.stop();
  robot.options.args = ["--ca-fingerprint", second];
  robot.restart();
  const { api: fresh } = await server.org("Other");
  assert.equal((await fresh.getMe()).data.org.name, "Other");
  const status = async (): Promise<string | undefined> =>
    (JSON.parse((await home.run(["robots", "list", "--json"])).stdout) as { items: { status: string }[] }).items[0]?.status;
  await until("the robot to be back", async () => (await status()) === "online");
});

interface Namespace {
  within: string[];
  /** Address of this machine in the namespace. */
  address: string;
}

/**
 * Creates a namespace that acts as another machine, connected to this machine by a virtual cable. Undefined where that is not permitted.
 */
function otherNamespace(t: TestContext): Namespace | undefined {
  const name = `rf${process.pid}`;
  const net = `10.213.${process.pid % 250}`;
  const ip = (...args: string[]): void => void execFileSync("ip", args, { stdio: "pipe" });
  t.after(() => {
    try {
      ip("netns", "del", name);
    } catch {
      // The namespace was never created.
    }
  });
  try {
    ip("netns", "add", name);
    ip("link", "add", `${name}a`, "type", "veth", "peer", "name", `${name}b`, "netns", name);
    ip("addr", "add", `${net}.1/24`, "dev", `${name}a`);
    ip("link", "set", `${name}a`, "up");
    ip("-n", name, "addr", "add", `${net}.2/24`, "dev", `${name}b`);
    ip("-n", name, "link", "set", `${name}b`, "up");
    ip("-n", name, "link", "set", "lo", "up");
    return { within: ["ip", "netns", "exec", name], address: `${net}.1` };
  } catch {
    return undefined;
  }
}

test("a new user on another machine can log in, enroll a robot and deploy over TLS", LIMIT, async (t) => {
  const other = otherNamespace(t);
  if (other === undefined) return t.skip("this user may not make network namespaces");
  await using server = await ServerProcess.start({ args: ["--tls", "auto"], listen: "0.0.0.0:0" });
  const url = `https://${other.address}:${new URL(server.url).port}`;
  const plain = new Program(
    "packages/cli/src/main.ts",
    ["api", "GET", "/healthz", "--base-url", url.replace("https", "http")],
    {
      ROAMFLEET_TOKEN: "rf_user_x",
    },
    other.within,
  );
  assert.equal((await plain.ended).code, 2, plain.output);
  assert.match(plain.output, /plain http to another machine/);
  await begin(server, url, other.within);
});
