// Separate process: it measures its memory and counts its promises.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { queryObjects, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { type Channel, controlMessage, dataMessage, readMessage, type ShellParams } from "@roamfleet/protocol/link";
import { channelPair } from "@roamfleet/protocol/link/testing";
import type { ShellSeams } from "./shell.ts";
import { createShells, SHELLS_MAX } from "./index.ts";
import { PipedTerminal } from "./piped.ts";
import { PtyTerminal } from "./pty.ts";

const LIMIT = { timeout: 120_000 };
const MIB = 1024 * 1024;

/** A viewer's end of a shell. */
class Seen {
  readonly channel: Channel;
  readonly #parts: Uint8Array[] = [];
  errors = "";
  exit: Record<string, unknown> | undefined;
  /** Resolves when the channel has ended and all of it was read. */
  readonly over: Promise<void>;

  constructor(channel: Channel) {
    this.channel = channel;
    this.over = (async () => {
      for await (const message of channel) {
        const { data, control } = readMessage(message);
        assert.equal(this.exit, undefined, "something came after the exit");
        if (data !== undefined) this.#parts.push(data);
        else if (control.type === "stderr") this.errors += Buffer.from(String(control["data"]), "base64").toString("utf8");
        else if (control.type === "exit") this.exit = control;
      }
    })();
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }

  get text(): string {
    return this.bytes.toString("utf8");
  }

  async type(text: string | Uint8Array): Promise<void> {
    await this.channel.write(dataMessage(typeof text === "string" ? Buffer.from(text) : text));
  }
}

const OWN_USER = os.userInfo().username;

async function startShells(more: Partial<ShellSeams> = {}) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "rf-shell-"));
  const shells = createShells({
    clock: systemClock,
    shell: { user: OWN_USER },
    environment: { PATH: process.env["PATH"] ?? "" },
    place: () => undefined,
    is_confined: () => false,
    state_directory: home,
    ...more,
  });
  const pair = channelPair({ shell: shells.source });
  const opened: Channel[] = [];
  return {
    shells,
    home,
    async open(params: Partial<ShellParams> = {}): Promise<Seen> {
      const channel = await pair.server.open("shell", "shell", { cols: 80, rows: 24, ...params });
      opened.push(channel);
      return new Seen(channel);
    },
    /** Opens a channel that is read only when the test does so. */
    async openUnread(params: Partial<ShellParams>): Promise<Channel> {
      const channel = await pair.server.open("shell", "shell", { cols: 80, rows: 24, ...params });
      opened.push(channel);
      return channel;
    },
    async [Symbol.asyncDispose]() {
      for (const channel of opened) channel.reset(1000, "the test is over");
      await shells.ended();
      fs.rmSync(home, { recursive: true, force: true });
    },
  };
}

const sh = (script: string, ...args: string[]): Partial<ShellParams> => ({ command: ["sh", "-c", script, "sh", ...args] });

/** Returns the processes that still have these words on their command line. */
function runningWith(words: string): number[] {
  return fs.readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const alive = !/^\d+ \(.*\) Z/s.test(fs.readFileSync(`/proc/${pid}/stat`, "latin1"));
      return alive && fs.readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(words) ? [Number(pid)] : [];
    } catch {
      return [];
    }
  });
}

test("bash runs typed commands on a pseudoterminal and returns its exit code", LIMIT, async () => {
  await using it = await startShells({ shell: { user: OWN_USER, command: ["bash", "--norc"] } });
  const seen = await it.open();
  await seen.type("tty; echo $((6*7)) $TERM\r");
  await until("its answer", () => seen.text.includes("42 xterm-256color"));
  assert.match(seen.text, /\/dev\/pts\/\d+/);
  await seen.type("exit 3\r");
  await seen.over;
  assert.deepEqual(seen.exit, { type: "exit", code: 3 });
  assert.deepEqual(await seen.channel.ended, { code: 1000, reason: "" });
});

test("a shell without a command starts the user's login shell in the home directory", LIMIT, async () => {
  await using it = await startShells();
  const seen = await it.open();
  await seen.type("pwd; echo user=$USER shell=$0; exit\r");
  await seen.over;
  assert.ok(seen.text.includes(`user=${OWN_USER}`), seen.text);
  assert.ok(seen.text.includes(os.homedir()), seen.text);
});

test("delivers all output that a program writes directly before its exit", { timeout: 120_000 }, async () => {
  await using it = await startShells();
  const size = 1_000_000;
  for (let i = 0; i < 40; i += 1) {
    const seen = await it.open(sh(`stty raw; head -c ${size} /dev/zero; exit 42`));
    await seen.over;
    assert.equal(seen.bytes.length, size, `burst ${i}`);
    assert.deepEqual(seen.exit, { type: "exit", code: 42 });
  }
});

test("delivers all output of a program even if the viewer reads it late", LIMIT, async () => {
  await using it = await startShells();
  const marker = path.join(it.home, "ended");
  const channel = await it.openUnread(sh(`stty raw; head -c 300000 /dev/zero; touch ${marker}; exit 9`));
  await until("that it is stuck or over", () => fs.existsSync(marker));
  // Longer than the library's delay of 200 ms after an exit.
  await new Promise((resolve) => setTimeout(resolve, 500));
  const seen = new Seen(channel);
  await seen.over;
  assert.equal(seen.bytes.length, 300_000);
  assert.equal(seen.exit?.["code"], 9);
});

test("blocks a program whose output is not read instead of buffering the output", LIMIT, async () => {
  await using it = await startShells();
  const file = path.join(it.home, "big");
  fs.writeFileSync(file, Buffer.alloc(50 * MIB, "0123456789abcdef"));
  const channel = await it.openUnread(sh(`stty raw; exec cat ${file}`));
  await until("the first bytes", () => runningWith(file).length > 0);
  const before = process.memoryUsage();
  const spent = (): number =>
    fs
      .readFileSync("/proc/self/io", "latin1")
      .split("\n")
      .map((line) => /^rchar: (\d+)/.exec(line)?.[1])
      .map(Number)
      .find((count) => count > 0) ?? 0;
  const start = spent();
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  assert.ok(spent() - start < 8 * MIB, `${spent() - start} bytes were read from a stuck shell`);
  assert.ok(process.memoryUsage().arrayBuffers - before.arrayBuffers < 2 * MIB);
  let [bytes, exit] = [0, undefined as unknown];
  for await (const message of channel) {
    const { data, control } = readMessage(message);
    if (data === undefined) exit = control["code"];
    else bytes += data.length;
  }
  assert.deepEqual([bytes, exit], [50 * MIB, 0]);
});

test("a shell passes every byte unchanged in both directions", LIMIT, async () => {
  await using it = await startShells();
  const all = Uint8Array.from({ length: 256 }, (_, i) => i);
  const seen = await it.open(sh("stty raw -echo; printf ready; exec head -c 256"));
  await until("raw mode", () => seen.text === "ready");
  await seen.type(all);
  await seen.over;
  assert.deepEqual(seen.bytes.subarray(5), Buffer.from(all));
  const words = await it.open({ command: ["printf", "%s", "grüße 日本 \u{1f916}"] });
  await words.over;
  assert.equal(words.text, "grüße 日本 \u{1f916}");
});

test("a shell's terminal starts with the viewer's size and follows resizes", LIMIT, async () => {
  await using it = await startShells();
  const seen = await it.open({ cols: 132, rows: 43, ...sh("trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.05; done") });
  await until("the first size", () => seen.text.includes("43 132"));
  await seen.channel.write(controlMessage({ type: "resize", cols: 0, rows: 10 }));
  await seen.channel.write(controlMessage({ type: "resize", cols: 101, rows: 31 }));
  await until("the second size", () => seen.text.includes("31 101"));
  await seen.over;
});

test("Ctrl-C interrupts the program of a shell, and the exit names the signal", LIMIT, async () => {
  await using it = await startShells();
  const seen = await it.open(sh("trap 'echo interrupted; kill -TERM $$' INT; echo ready; while :; do sleep 0.05; done"));
  await until("the program", () => seen.text.includes("ready"));
  await seen.type("\u0003");
  await seen.over;
  assert.ok(seen.text.includes("interrupted"));
  assert.deepEqual(seen.exit, { type: "exit", code: 143, signal: "SIGTERM" });
  const killed = await it.open(sh("kill -KILL $$"));
  await killed.over;
  assert.deepEqual(killed.exit, { type: "exit", code: 137, signal: "SIGKILL" });
});

test("vim in a shell uses the viewer's terminal size and saves typed text", LIMIT, async (t) => {
  if (!fs.existsSync("/usr/bin/vim")) return t.skip("vim is not installed");
  await using it = await startShells();
  const file = path.join(it.home, "note.txt");
  const seen = await it.open({ cols: 100, rows: 30, command: ["vim", "-u", "NONE", "-i", "NONE", "-n", file] });
  await until("the screen", () => seen.text.includes("note.txt"));
  assert.ok(seen.text.includes("\u001b["), "nothing was drawn");
  await seen.type("ihello robot\u001b:set lines? columns?\r");
  await until("its size", () => /lines=30/.test(seen.text) && /columns=100/.test(seen.text));
  await seen.type("\r:wq\r");
  await seen.over;
  assert.equal(seen.exit?.["code"], 0);
  assert.equal(fs.readFileSync(file, "utf8"), "hello robot\n");
});

test("disconnecting kills all processes of a shell, even processes that ignore SIGHUP", LIMIT, async () => {
  await using it = await startShells();
  const mark = `left-${process.pid}-${Math.floor(performance.now())}`;
  const seen = await it.open(
    sh(`trap '' HUP TERM; sh -c 'trap "" HUP; while :; do sleep 0.05; done' ${mark}-1 & while :; do sleep 0.05; done`, mark),
  );
  await until("both", () => runningWith(mark).length >= 2);
  seen.channel.close(1000, "the viewer left");
  await until("nothing runs", () => runningWith(mark).length === 0);
  await it.shells.ended();
});

test("ends the background jobs of a shell when the shell exits", LIMIT, async () => {
  await using it = await startShells();
  const mark = `job-${process.pid}-${Math.floor(performance.now())}`;
  for (const terminal of [true, false]) {
    const seen = await it.open({ terminal, ...sh(`trap '' HUP; (sh -c 'while :; do sleep 0.05; done' ${mark} &); printf done; exit 5`) });
    await seen.over;
    assert.deepEqual([seen.text, seen.exit?.["code"]], ["done", 5]);
    await until("the job ended", () => runningWith(mark).length === 0);
  }
});

test("a command without a terminal gets unchanged bytes, a separate stderr and end of input", LIMIT, async () => {
  await using it = await startShells();
  const seen = await it.open({ terminal: false, ...sh("cat; echo wrong >&2; test -t 0 || exit 7") });
  const all = Buffer.from(Uint8Array.from({ length: 256 }, (_, i) => i));
  await seen.type(all);
  await seen.channel.write(controlMessage({ type: "eof" }));
  await seen.over;
  assert.deepEqual(seen.bytes, all);
  assert.equal(seen.errors, "wrong\n");
  assert.deepEqual(seen.exit, { type: "exit", code: 7 });
});

test("blocks the sender of shell input when the program does not read its input", LIMIT, async () => {
  await using it = await startShells();
  const seen = await it.open({ terminal: false, ...sh("exec sleep 60") });
  let [taken, stuck] = [0, false];
  while (!stuck && taken < 8 * MIB) {
    const written = seen.channel.write(dataMessage(new Uint8Array(32 * 1024)));
    stuck = await Promise.race([written.then(() => false), new Promise<boolean>((resolve) => setTimeout(() => resolve(true), 500))]);
    if (!stuck) taken += 32 * 1024;
  }
  assert.ok(stuck, "8 MiB were taken for a program that reads nothing");
  assert.ok(taken <= MIB, `${taken} bytes`);
});

test("a shell with an unknown command exits 127 with an error", LIMIT, async () => {
  await using it = await startShells();
  const seen = await it.open({ command: ["no-such-program", "x"] });
  await seen.over;
  assert.match(seen.text, /no-such-program: command not found/);
  assert.equal(seen.exit?.["code"], 127);
});

test("rejects invalid shell requests and shells over the limit", LIMIT, async () => {
  await using it = await startShells();
  for (const params of [{ cols: 0 }, { rows: 5_000 }, { command: [] }, { command: ["a\0b"] }, { app: 7 as unknown as string }])
    await assert.rejects(it.open(params), { code: 4410 });
  const shells = await Promise.all(Array.from({ length: SHELLS_MAX }, () => it.open(sh("echo up; exec sleep 60"))));
  await assert.rejects(it.open(), { code: 4429 });
  await until("all of them", () => shells.every(({ text }) => text.includes("up")));
});

test("a shell of a running app has the app's directory and environment", LIMIT, async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "rf-shell-app-"));
  try {
    await using it = await startShells({
      place: (app) => (app === "nav" ? { directory, env: { PATH: process.env["PATH"] ?? "", ROAMFLEET_APP: "nav" } } : undefined),
    });
    const gone = await it.open({ app: "arm" });
    await gone.over;
    assert.deepEqual(await gone.channel.ended, { code: 4410, reason: "the app arm is not running on the robot" });
    const seen = await it.open({ app: "nav", ...sh("pwd; echo app=$ROAMFLEET_APP") });
    await seen.over;
    assert.ok(seen.text.includes(directory) && seen.text.includes("app=nav"), seen.text);
  } finally {
    fs.rmSync(directory, { recursive: true, force: true });
  }
});

test("a shell of another user has that user's groups and terminal and no capabilities", LIMIT, async (t) => {
  if (process.getuid?.() !== 0) return t.skip("only root opens shells of others");
  await using it = await startShells({ shell: { user: "nobody" } });
  const seen = await it.open(sh('id -un; id -Gn; stat -c "tty of %U" "$(tty)"; grep -i capeff /proc/self/status'));
  await seen.over;
  assert.match(seen.text, /nobody\r\nnogroup\r\ntty of nobody\r\nCapEff:\s+0+\r\n/);
  const unknown = await startShells({ shell: { user: "no-such-user" } });
  await using _ = unknown;
  const refused = await unknown.open();
  await refused.over;
  assert.deepEqual(await refused.channel.ended, { code: 4410, reason: "there is no user no-such-user on the robot" });
});

test("an agent that runs as root opens no root shell unless configured", LIMIT, async (t) => {
  if (process.getuid?.() !== 0) return t.skip("it does not run as root");
  await using it = await startShells({ shell: {} });
  const seen = await it.open();
  await seen.over;
  const { code, reason } = await seen.channel.ended;
  assert.equal(code, 4410);
  assert.match(reason, /shell\.user/);
});

test("writing shell input leaks no memory in the agent", LIMIT, async (t) => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  for (const terminal of [true, false]) {
    const program = { argv: ["/bin/sh", "-c", terminal ? "stty -echo raw; exec cat >/dev/null" : "exec cat >/dev/null"], cwd: "/" };
    const started = { ...program, env: { PATH: process.env["PATH"] ?? "" }, clock: systemClock };
    const shell = terminal ? new PtyTerminal({ ...started, cols: 80, rows: 24 }) : new PipedTerminal(started);
    t.after(() => shell.close());
    const bytes = new Uint8Array(terminal ? 512 : 128 * 1024);
    const write = async (): Promise<number> => {
      for (let count = 0; count < 500; count += 1) await shell.write(bytes);
      collect();
      return queryObjects(Promise, { format: "count" });
    };
    const before = await write();
    assert.ok((await write()) - before < 100, "promises of earlier writes are still in memory");
  }
});
