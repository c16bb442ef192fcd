import assert from "node:assert/strict";
import fs from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { pino } from "pino";
import { socketIn } from "../../local/socket-path.ts";
import { temporaryDirectory } from "../../testing/agent-rig.ts";
import { SocketDirectory } from "./socket-mount.ts";

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

test("the agent's socket directory is created with a mount point for the configs, and again after it was deleted", (t) => {
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

test("a socket at another path is mounted if it is alone in its directory", async (t) => {
  const place = temporaryDirectory(t);
  const socket = path.join(place, "robot.sock");
  await listen(t, socket);
  const { directory, lines } = directoryOf(socket, temporaryDirectory(t));
  for (let times = 0; times < 2; times += 1)
    assert.deepEqual(directory.prepare(), { directory: place, inside: "/run/roamfleet/robot.sock" });
  assert.deepEqual(lines, []);
});

test("a directory with other files is mounted into no container, which is logged once", async (t) => {
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
    [path.join(full, "a:b", "a.sock"), /has a colon/],
  ] as const) {
    const { directory, lines } = directoryOf(socket, state);
    assert.equal(directory.prepare(), undefined);
    assert.match(lines.join(), why);
  }
});

test("a robot without a socket mounts none and logs nothing", (t) => {
  const { directory, lines } = directoryOf(undefined, temporaryDirectory(t));
  assert.deepEqual([directory.prepare(), lines], [undefined, []]);
});
