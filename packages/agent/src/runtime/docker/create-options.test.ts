import assert from "node:assert/strict";
import fs, { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { createServer } from "node:net";
import { once } from "node:events";
import { pino } from "pino";
import { allowedMount, SocketDirectory } from "./create-options.ts";
import { socketIn } from "../../local/socket-path.ts";
import { temporaryDirectory } from "../../testing/agent-rig.ts";

test("rejects mounts that would expose the agent's state or an engine's socket", (t) => {
  const root = realpathSync(mkdtempSync(path.join(tmpdir(), "roamfleet-mounts-")));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const [state, run, data] = ["state", "run", "data"].map((name) => path.join(root, name)) as [string, string, string];
  for (const directory of [path.join(state, "apps"), run, data]) mkdirSync(directory, { recursive: true });
  const socket = path.join(run, "engine.sock");
  writeFileSync(socket, "");
  writeFileSync(path.join(run, "other"), "");
  symlinkSync(state, path.join(data, "elsewhere"));
  const guarded = [state, socket];
  assert.equal(allowedMount(data, [root], guarded), data);
  assert.equal(allowedMount(path.join(run, "other"), [root], guarded), path.join(run, "other"));
  for (const place of [root, state, path.join(state, "apps"), path.join(data, "elsewhere"), run, socket])
    assert.throws(() => allowedMount(place, [root], guarded), /contains the agent's own state, or the socket/, place);
  assert.throws(() => allowedMount(data, [state], guarded), /not below a directory/);
  assert.throws(() => allowedMount(path.join(root, "none"), [root], guarded), /does not exist/);
  assert.throws(() => allowedMount(data, [], guarded), /allows no mounts/);
});

function directoryOf(socket: string | undefined, state_directory: string) {
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  return { lines, directory: new SocketDirectory({ config: { state_directory, ...(socket ? { local_api: { socket } } : {}) }, log }) };
}

async function listen(t: TestContext, socket: string): Promise<void> {
  const server = createServer().listen(socket);
  await once(server, "listening");
  t.after(() => server.close());
}

test("creates the agent's socket directory with a mount point for configs, even after deletion", (t) => {
  const state = temporaryDirectory(t);
  const { directory, lines } = directoryOf(socketIn(state), state);
  const run = path.join(state, "run");
  for (let times = 0; times < 2; times += 1) {
    assert.deepEqual(directory.prepare(), { directory: run, inside: "/run/roamfleet/agent.sock" });
    assert.deepEqual([fs.statSync(run).mode & 0o777, fs.readdirSync(run)], [0o700, ["configs"]]);
    fs.rmSync(run, { recursive: true });
  }
  assert.deepEqual(lines, []);
});

test("mounts a socket at a custom path if its directory contains no other files", async (t) => {
  const place = temporaryDirectory(t);
  const socket = path.join(place, "robot.sock");
  await listen(t, socket);
  const { directory, lines } = directoryOf(socket, temporaryDirectory(t));
  for (let times = 0; times < 2; times += 1)
    assert.deepEqual(directory.prepare(), { directory: place, inside: "/run/roamfleet/robot.sock" });
  assert.deepEqual(lines, []);
});

test("does not mount a socket directory that contains other files, and logs this once", async (t) => {
  const state = temporaryDirectory(t);
  fs.mkdirSync(path.join(state, "identity"));
  await listen(t, path.join(state, "agent.sock"));
  const beside = directoryOf(path.join(state, "agent.sock"), state);
  for (let times = 0; times < 3; times += 1) assert.equal(beside.directory.prepare(), undefined);
  assert.deepEqual([beside.lines.length, fs.readdirSync(state)], [1, ["agent.sock", "identity"]]);
  assert.match(beside.lines[0] ?? "", /contains other files too, such as identity/);

  const full = temporaryDirectory(t);
  fs.mkdirSync(path.join(full, "configs"));
  fs.writeFileSync(path.join(full, "configs", "secret"), "");
  for (const [socket, why] of [
    [path.join(full, "a.sock"), /configs is not empty/],
    [path.join(full, "none", "a.sock"), /ENOENT/],
    [path.join(full, "a:b", "a.sock"), /contains a colon/],
  ] as const) {
    const { directory, lines } = directoryOf(socket, state);
    assert.equal(directory.prepare(), undefined);
    assert.match(lines.join(), why);
  }
});

test("mounts no socket directory on a robot without a local API socket", (t) => {
  const { directory, lines } = directoryOf(undefined, temporaryDirectory(t));
  assert.deepEqual([directory.prepare(), lines], [undefined, []]);
});
