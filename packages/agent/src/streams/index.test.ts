import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import fs from "node:fs";
import { createServer } from "node:net";
import os from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { type Channel, controlMessage, type FileAnswer, readMessage } from "@roamfleet/protocol/link";
import { channelPair } from "@roamfleet/protocol/link/testing";
import { pino } from "pino";
import { ROBOT_CONFIG_DEFAULT, type RobotConfig } from "../config-file/robot-config.ts";
import { writeTrust } from "../signing/pinned-trust.ts";
import { ReleaseGuard } from "../signing/release-guard.ts";
import { makeSigner, TEST_ORG, trusting } from "../testing/signing.ts";
import { streamSources } from "./index.ts";
import { createShells } from "./shell/index.ts";

const LIMIT = { timeout: 120_000 };
const NEEDS_ROOT = { ...LIMIT, skip: process.getuid?.() !== 0 && "needs root" };
const KEY = makeSigner("maker");
const log = pino({ enabled: false });

/** Creates all streams of a robot that has signing keys, as the agent does. */
function startRobot(t: TestContext, more: Partial<RobotConfig>, { required = true } = {}) {
  const state_directory = fs.mkdtempSync(path.join(os.tmpdir(), "roamfleet-signed-"));
  t.after(() => fs.rmSync(state_directory, { recursive: true, force: true }));
  fs.mkdirSync(path.join(state_directory, "identity"), { mode: 0o700 });
  fs.writeFileSync(
    path.join(state_directory, "identity", "key.pem"),
    generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }),
  );
  writeTrust(state_directory, { serial: 1, require_signature: required, keys: [KEY] });
  const statements: unknown[] = [];
  const guard = new ReleaseGuard({
    state_directory,
    org_id: TEST_ORG,
    robot_id: "rob_1",
    labels: {},
    clock: systemClock,
    server_time: () => 0,
    fetcher: {
      get: async () => ({
        status: 200,
        headers: { get: () => null },
        body: (async function* () {
          yield Buffer.from(JSON.stringify({ items: statements }));
        })(),
      }),
    },
    log,
  });
  const robot = { ...ROBOT_CONFIG_DEFAULT, ...more };
  const environment = { PATH: process.env["PATH"] ?? "" };
  const directory = path.join(state_directory, "apps");
  fs.mkdirSync(directory);
  const shells = createShells({
    clock: systemClock,
    shell: robot.shell,
    environment,
    place: () => ({ directory, env: {} }),
    is_confined: () => guard.requires_signature,
    state_directory,
  });
  const sources = streamSources({ robot, clock: systemClock, log, state_directory, signatures: guard, environment, shells });
  const pair = channelPair(Object.fromEntries(sources));
  t.after(() => shells.ended());
  return {
    state_directory,
    guard,
    statements,
    open: (kind: string, params?: unknown) => pair.server.open(kind, kind === "files" ? "camera" : "shell", params),
  };
}

const SHELL = { cols: 80, rows: 24, terminal: false };

/** Returns the output of a shell, and why its channel ended. */
async function run(channel: Channel): Promise<{ text: string; reason: string }> {
  let text = "";
  for await (const message of channel) {
    const { data, control } = readMessage(message);
    if (data !== undefined) text += Buffer.from(data).toString("utf8");
    else if (control.type === "stderr") text += Buffer.from(String(control["data"]), "base64").toString("utf8");
  }
  return { text, reason: (await channel.ended).reason };
}

async function ask(channel: Channel, request: Record<string, unknown>): Promise<FileAnswer> {
  await channel.write(controlMessage(request));
  const message = await channel.read();
  if (message === undefined) throw new Error((await channel.ended).reason);
  return readMessage(message).control as FileAnswer;
}

test("robots that require signed releases refuse shells, files and tunnels by default", LIMIT, async (t) => {
  const listener = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  t.after(() => listener.close());
  const { port } = listener.address() as { port: number };
  const robot = startRobot(t, { shell: { user: os.userInfo().username } });
  for (const [kind, params] of [
    ["shell", { ...SHELL, command: ["true"] }],
    ["files", undefined],
    ["forward", { port }],
  ] as const)
    assert.match((await (await robot.open(kind, params)).ended).reason, new RegExp(`signed releases only.*allow ${kind}`), kind);
});

test("on robots that require signed releases, allowed streams cannot read the agent's state", NEEDS_ROOT, async (t) => {
  const robot = startRobot(t, { shell: { user: "nobody" }, signed: { allow: ["shell", "files"] } });
  const key = path.join(robot.state_directory, "identity", "key.pem");
  const script = `id -u; id -G; grep NoNewPrivs /proc/self/status; cat ${key}; echo x > ${key}; ls ${robot.state_directory}; ls /proc/${process.pid}/cwd`;
  const { text } = await run(await robot.open("shell", { ...SHELL, command: ["sh", "-c", script] }));
  const nobody = execFileSync("id", ["-u", "nobody"], { encoding: "utf8" }).trim();
  assert.match(text, new RegExp(`^${nobody}$`, "m"));
  assert.match(text, /NoNewPrivs:\s+1/);
  assert.equal(text.match(/ermission denied$/gm)?.length, 4, text);
  assert.ok(!text.includes("PRIVATE KEY"));

  const files = await robot.open("files");
  for (const request of [
    { type: "read", path: key },
    { type: "list", path: robot.state_directory },
    {
      type: "write",
      path: "/etc/roamfleet-test",
      size: 0,
      sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      mode: 0o644,
    },
  ]) {
    const answer = await ask(files, request);
    assert.ok(answer.type === "failed" && answer.code === "forbidden", JSON.stringify(answer));
  }
  files.close();

  const beside = await run(await robot.open("shell", { ...SHELL, app: "main", command: ["true"] }));
  assert.match(beside.reason, /no shell is opened where an app runs/);
});

test("robots that require signed releases open no shell for users who can read the agent's state", NEEDS_ROOT, async (t) => {
  for (const [user, prepare, refusal] of [
    ["root", () => {}, /neither root nor the agent's own user/],
    ["nobody", (directory: string) => fs.chmodSync(directory, 0o755), /may enter .*chmod it to 0700/],
    ["nobody", (directory: string) => fs.chownSync(directory, 65_534, 0), /may enter/],
  ] as const) {
    const robot = startRobot(t, { shell: { user }, signed: { allow: ["shell", "files"] } });
    prepare(robot.state_directory);
    for (const kind of ["shell", "files"])
      assert.match((await run(await robot.open(kind, { ...SHELL, command: ["id"] }))).reason, refusal, `${kind} ${user}`);
  }
});

test("an agent without root opens no shell if signed releases are required", NEEDS_ROOT, () => {
  const script = `
    const { findShellUser } = await import(${JSON.stringify(path.join(import.meta.dirname, "shell/shell-user.ts"))});
    for (const user of [undefined, "nobody", "daemon"])
      console.log(await findShellUser(user, { kept_from: "/tmp" }).then(() => "opened", ({ message }) => message));`;
  const output = execFileSync(
    "setpriv",
    ["--reuid=65534", "--regid=65534", "--clear-groups", "--", process.execPath, "--input-type=module", "-e", script],
    {
      cwd: "/",
      encoding: "utf8",
    },
  );
  assert.equal(output.match(/does not run as root/g)?.length, 3, output);
});

test("an open shell ends when signed releases become required", LIMIT, async (t) => {
  const robot = startRobot(t, { shell: { user: os.userInfo().username } }, { required: false });
  const shell = await robot.open("shell", { ...SHELL, command: ["sleep", "20"] });
  const ended = run(shell);
  assert.equal(robot.guard.requires_signature, false);
  robot.statements.push(trusting(2, [KEY], KEY));
  await robot.guard
    .admit(
      { app: "main", current: null, previous: null },
      { id: "rel_1", tag: "v1", kind: "file", artifact_sha256: "0".repeat(64), artifact_size: 1, image: null, manifest: null },
      { asked: "now", signal: new AbortController().signal },
    )
    .catch(() => {});
  assert.equal(robot.guard.requires_signature, true);
  assert.match((await ended).reason, /signed releases only/);
  assert.match((await run(await robot.open("shell", { ...SHELL, command: ["true"] }))).reason, /signed releases only/);
});
