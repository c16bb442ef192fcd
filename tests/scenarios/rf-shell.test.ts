import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { PtyTerminal } from "../../packages/agent/src/streams/shell/pty.ts";
import { RfHome } from "../../packages/cli/src/testing/run-rf.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { Proxy } from "../harness/proxy.ts";

const TIMEOUT = { timeout: 300_000 };
const MAIN = path.resolve(import.meta.dirname, "../../packages/cli/src/main.ts");
const withShell = { robot: { shell: { user: os.userInfo().username, command: ["bash", "--norc", "-i"] } } };

const envOf = (plane: Harness, url = plane.url) => ({ ROAMFLEET_BASE_URL: url, ROAMFLEET_TOKEN: plane.default_org.admin_token });

/** Runs `rf` on a terminal whose settings are recorded before and after. */
function onTerminal(plane: Harness, home: RfHome, args: string[], line?: Proxy) {
  const rf = [process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(" ");
  const terminal = new PtyTerminal({
    argv: ["/bin/sh", "-c", `stty -g; ${rf}; echo "code=$?"; stty -g`],
    cwd: home.directory,
    env: { PATH: process.env["PATH"] ?? "", XDG_CONFIG_HOME: home.directory, TERM: "xterm-256color", ...envOf(plane, line?.url) },
    cols: 97,
    rows: 33,
    clock: systemClock,
  });
  let text = "";
  const over = (async () => {
    for (let output = await terminal.read(); output !== undefined; output = await terminal.read())
      text += Buffer.from(output.bytes).toString("utf8");
  })();
  return {
    terminal,
    over,
    get text() {
      return text;
    },
    type: (keys: string): Promise<void> => terminal.write(Buffer.from(keys)),
    shows: (what: string | RegExp): Promise<unknown> =>
      plane
        .until(`the terminal to show ${String(what)}`, () => (typeof what === "string" ? text.includes(what) : what.test(text)))
        .catch((error: unknown) => Promise.reject(new Error(`${String(error)}\n${JSON.stringify(text)}`))),
    /** Resolves when rf and the surrounding shell have ended; checks that the terminal settings are restored. */
    async ended(): Promise<string | undefined> {
      await over;
      const settings = text.match(/^[0-9a-f]+(:[0-9a-f]+){10,}/gm) ?? [];
      assert.equal(settings.length, 2, JSON.stringify(text));
      assert.equal(settings[0], settings[1], "the terminal is not as it was");
      return /code=(\d+)/.exec(text)?.[1];
    },
    async [Symbol.asyncDispose]() {
      await terminal.close();
    },
  };
}

test("rf robots shell passes on keys, terminal size and exit code, and restores the terminal", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  await using home = await RfHome.make();
  await using rf = onTerminal(plane, home, ["robots", "shell", robot.id]);
  await rf.shows("bash-");
  await rf.type("stty size; echo $TERM\r");
  await rf.shows("33 97");
  await rf.shows("xterm-256color\r\n");
  rf.terminal.resize(111, 44);
  // Keys may arrive before the terminal size does.
  await rf.type("until [ \"$(stty size)\" = '44 111' ]; do sleep 0.1; done; echo now $(stty size)\r");
  await rf.shows("now 44 111");
  // Wait until `sleep` is the foreground program. Before that, Ctrl-C would reach the shell that starts it.
  await rf.type("sh -c 'echo it runs | tr a-z A-Z; exec sleep 100'\r");
  await rf.shows("IT RUNS\r\n");
  await rf.type("\u0003");
  await rf.shows("^C");
  await rf.type("exit 42\r");
  assert.equal(await rf.ended(), "42");
});

test("typing ~. after Enter ends a shell that does not respond, and ~~ sends one ~", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  await using home = await RfHome.make();
  await using rf = onTerminal(plane, home, ["robots", "shell", robot.id]);
  await rf.shows("bash-");
  await rf.type("echo a~.b\r~~\u007f");
  await rf.shows("a~.b\r\n");
  await rf.type("\u0015exec sleep 100\r");
  await rf.shows("exec sleep 100\r\n");
  await rf.type("~.");
  assert.equal(await rf.ended(), "1");
  assert.match(rf.text, /disconnected/);
});

test("typing ~. ends a shell over a stalled connection, however much was typed into it", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  await using home = await RfHome.make();
  await using line = await Proxy.start(plane.url);
  await using rf = onTerminal(plane, home, ["robots", "shell", robot.id], line);
  await rf.shows("bash-");
  await rf.type("stty -echo; cat > /dev/null\r");
  await rf.shows("/dev/null\r\n");
  line.shape = { delay_ms: 24 * 3_600_000 };
  // Type more than fits into the buffers of rf, of the sockets and of the connection, so that a send blocks.
  for (let i = 0; i < 200; i += 1) await rf.type(`${"x".repeat(32 * 1024)}\r`);
  await rf.type("~.");
  assert.equal(await rf.ended(), "1");
  assert.match(rf.text, /disconnected/);
});

test("rf restores the terminal and reports the error when its connection is cut during vim", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  await using home = await RfHome.make();
  await using rf = onTerminal(plane, home, ["robots", "shell", robot.id, "--", "vim", "-u", "NONE", "-i", "NONE", "-n", "/tmp/none"]);
  await rf.shows("\u001b[?1049h");
  await rf.shows("/tmp/none");
  await robot.stop();
  assert.equal(await rf.ended(), "7");
  assert.match(rf.text, /agent offline/);
  assert.ok(rf.text.lastIndexOf("\u001b[?1049l") > rf.text.lastIndexOf("\u001b[?1049h"), "the screen of vim was left on");
  await robot.start();
  // Poll, because rf is notified of the end before the server records it.
  const list = await plane.until("its end", async () => {
    const { items } = await plane.api.listShellSessions({ params: { id: robot.id } });
    return items.every(({ status }) => status !== "open") && items;
  });
  assert.deepEqual(
    list.map(({ status, reason, program }) => [status, reason, program]),
    [["aborted", "agent_offline", "vim"]],
  );
});

test("rf restores the terminal when it is terminated by a signal", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  await using home = await RfHome.make();
  await using rf = onTerminal(plane, home, ["robots", "shell", robot.id]);
  await rf.shows("bash-");
  const found = /\d+/.exec(await readFile(`/proc/${rf.terminal.pid}/task/${rf.terminal.pid}/children`, "utf8"));
  process.kill(Number(found?.[0]), "SIGTERM");
  assert.equal(await rf.ended(), "143");
});

test("rf robots shell in a pipe passes all bytes, stderr, the end of input and the exit code", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  await using home = await RfHome.make();
  const source = path.join(home.directory, "source");
  const copy = path.join(home.directory, "copy");
  const bytes = Buffer.from(Uint8Array.from({ length: 3_000_000 }, (_, i) => (i * 7 + (i >> 8)) % 256));
  await writeFile(source, bytes);
  const rf = `'${process.execPath}' '${MAIN}' robots shell '${robot.id}'`;
  const within = ["sh", "-c", `${rf} -- sh -c 'cat; echo wrong >&2; exit 3' < '${source}' > '${copy}'; exit $?`];
  const { code, stderr } = await home.run([], { env: envOf(plane), within });
  assert.deepEqual([code, stderr], [3, "wrong\n"]);
  assert.ok((await readFile(copy)).equals(bytes));
  const shell = await home.run(["robots", "shell", robot.id, "--no-tty"], { env: envOf(plane), stdin: "echo from stdin; exit 5\n" });
  assert.deepEqual([shell.code, shell.stdout], [5, "from stdin\n"]);
});

test("rf robots shell exits with 7 for an offline robot, and states why a robot refuses shells", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, { robot: { shell: { user: "no-such-user" } } });
  await using home = await RfHome.make();
  const { id } = robot;
  const refused = await home.run(["robots", "shell", id, "--", "true"], { env: envOf(plane) });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /no user no-such-user/);
  await robot.stop();
  await plane.until("offline", async () => (await plane.api.getRobot({ params: { id } })).data.status === "offline");
  const offline = await home.run(["robots", "shell", id], { env: envOf(plane) });
  assert.equal(offline.code, 7);
  assert.match(offline.stderr, /^agent offline\n/);
  const unknown = await home.run(["robots", "shell", "rob_none"], { env: envOf(plane) });
  assert.equal(unknown.code, 5);
});

test("rf robots sessions lists recorded shells and replays their output", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane, withShell);
  await using home = await RfHome.make();
  const env = envOf(plane);
  const shell = await home.run(["robots", "shell", robot.id, "--", "sh", "-c", "echo one; sleep 0.3; echo two; exit 6"], { env });
  assert.equal(shell.code, 6);
  const session = await plane.until("its end", async () =>
    (await plane.api.listShellSessions({ params: { id: robot.id } })).items.find(({ status }) => status === "ended"),
  );
  const list = await home.run(["robots", "sessions", "list", robot.id], { env });
  assert.match(list.stdout, new RegExp(`${session.id} .*sh .*ended .*exit 6`));
  const played = await home.run(["robots", "sessions", "play", session.id, "--raw"], { env });
  assert.deepEqual([played.code, played.stdout], [0, "one\ntwo\n"]);
  const file = path.join(home.directory, "session.cast");
  assert.equal((await home.run(["robots", "sessions", "play", session.id, "--save", file], { env })).code, 0);
  const saved = await readFile(file, "utf8");
  assert.match(saved, /^\{"version":2,.*"command":"sh -c .*\n\[[\d.]+,"o","one\\n"\]\n/);
  const [one = 0, two = 0] = Array.from(saved.matchAll(/^\[([\d.]+),"o"/gm), ([, seconds]) => Number(seconds));
  const start = performance.now();
  const timed = await home.run(["robots", "sessions", "play", session.id, "--speed", "0.1"], { env });
  assert.equal(timed.stdout, "one\ntwo\n");
  assert.ok(two > one && performance.now() - start >= (two - one) * 10_000, "the pause as it was recorded, at a tenth of the speed");
  const none = await home.run(["robots", "sessions", "play", "shl_none"], { env });
  assert.equal(none.code, 5);
});
