import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { type Channel, controlMessage, dataMessage, type FileAnswer, type FileRequest, readMessage } from "@roamfleet/protocol/link";
import { pino } from "pino";
import { channelPair, type ChannelPair } from "@roamfleet/protocol/link/testing";
import { filesSource } from "./index.ts";
import { PROCESSES_MAX } from "./own-process.ts";

const LIMIT = { timeout: 120_000 };
const sha256 = (bytes: Uint8Array): string => hash("sha256", bytes);

async function directory(t: TestContext): Promise<string> {
  const made = fs.realpathSync(await mkdtemp(path.join(tmpdir(), "roamfleet-files-")));
  t.after(() => rm(made, { recursive: true, force: true }));
  return made;
}

const REST = { is_confined: () => false, environment: {}, clock: systemClock, log: pino({ enabled: false }) };

/** Creates a robot that serves files, by default as the agent's own user. Root must be named explicitly. */
const robot = (
  directories: string[],
  user: string | undefined = process.getuid?.() === 0 ? "root" : undefined,
  state_directory = "/nowhere",
): ChannelPair => channelPair({ files: filesSource({ directories, state_directory, user, ...REST }) });

class Asker {
  readonly channel: Channel;
  constructor(channel: Channel) {
    this.channel = channel;
  }
  static async open(pair: ChannelPair): Promise<Asker> {
    return new Asker(await pair.server.open("files", "camera"));
  }
  async say(request: FileRequest): Promise<void> {
    await this.channel.write(controlMessage(request));
  }
  /** Returns the next response, and the data before it. */
  async hear(): Promise<{ answer: FileAnswer; data: Buffer }> {
    const parts: Uint8Array[] = [];
    for (;;) {
      const message = await this.channel.read();
      if (message === undefined) throw new Error(`the session ended: ${(await this.channel.ended).reason}`);
      const { data, control } = readMessage(message);
      if (data !== undefined) parts.push(data);
      else if (control["type"] !== "took") return { answer: control as FileAnswer, data: Buffer.concat(parts) };
    }
  }
  async ask(request: FileRequest): Promise<FileAnswer> {
    await this.say(request);
    return (await this.hear()).answer;
  }
  async send(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += 50_000) if (!(await this.channel.write(dataMessage(bytes.subarray(at, at + 50_000))))) return;
  }
  /** Writes a complete file. Returns the last response, and the offset at which the write began. */
  async put(file: string, bytes: Uint8Array, claimed = sha256(bytes), mode = 0o640): Promise<{ answer: FileAnswer; offset: number }> {
    const ready = await this.ask({ type: "write", path: file, size: bytes.length, sha256: claimed, mode });
    if (ready.type !== "ready") return { answer: ready, offset: -1 };
    await this.send(bytes.subarray(ready.offset));
    return { answer: await this.ask({ type: "end" }), offset: ready.offset };
  }
}

const randomBytes = (count: number, seed = 7): Buffer => {
  const bytes = Buffer.alloc(count);
  for (let i = 0, state = seed; i < count; i += 1) bytes[i] = (state = (state * 1_103_515_245 + 12_345) & 0x7fffffff) >> 16;
  return bytes;
};

const codeOf = (answer: FileAnswer): string => (answer.type === "failed" ? answer.code : answer.type);

test("reads a file from an offset and returns the hash of the whole file", LIMIT, async (t) => {
  const room = await directory(t);
  const bytes = randomBytes(300_000);
  fs.writeFileSync(path.join(room, "map.bin"), bytes, { mode: 0o640 });
  const asker = await Asker.open(robot([room]));
  await asker.say({ type: "read", path: path.join(room, "map.bin"), offset: 0 });
  const { answer: reading } = await asker.hear();
  assert.deepEqual(
    { ...reading, version: "" },
    { type: "reading", path: path.join(room, "map.bin"), size: 300_000, mode: 0o640, version: "", offset: 0 },
  );
  const { answer: done, data } = await asker.hear();
  assert.deepEqual(done, { type: "done", path: path.join(room, "map.bin"), bytes: 300_000, moved: 300_000, sha256: sha256(bytes) });
  assert.ok(data.equals(bytes));

  const { version } = reading as Extract<FileAnswer, { type: "reading" }>;
  await asker.say({ type: "read", path: path.join(room, "map.bin"), offset: 299_000, version });
  await asker.hear();
  const rest = await asker.hear();
  assert.deepEqual([rest.data.equals(bytes.subarray(299_000)), rest.answer], [true, { ...done, moved: 1_000 }]);

  // A read of a changed file is not resumed.
  fs.appendFileSync(path.join(room, "map.bin"), "more");
  assert.equal(codeOf(await asker.ask({ type: "read", path: path.join(room, "map.bin"), offset: 299_000, version })), "changed");
});

test("replaces the target file only when the written file is complete", LIMIT, async (t) => {
  const room = await directory(t);
  const target = path.join(room, "nav.yaml");
  fs.writeFileSync(target, "the old one", { mode: 0o600 });
  const bytes = randomBytes(200_000);
  const asker = await Asker.open(robot([room]));
  const ready = await asker.ask({ type: "write", path: target, size: bytes.length, sha256: sha256(bytes), mode: 0o4755 });
  assert.deepEqual(ready, { type: "ready", path: target, offset: 0 });
  await asker.send(bytes.subarray(0, 150_000));
  assert.equal(fs.readFileSync(target, "utf8"), "the old one");
  await asker.send(bytes.subarray(150_000));
  const done = { type: "done", path: target, bytes: 200_000, moved: 200_000, sha256: sha256(bytes) };
  assert.deepEqual(await asker.ask({ type: "end" }), done);
  assert.ok(fs.readFileSync(target).equals(bytes));
  // The file has the requested mode without setuid and setgid.
  assert.equal(fs.statSync(target).mode & 0o7777, 0o755);
  assert.deepEqual(fs.readdirSync(room), ["nav.yaml"]);
  const again = await asker.put(target, bytes);
  assert.deepEqual(again.answer, { ...done, moved: 0, unchanged: true });
});

test("resumes an interrupted file write, even in another session", LIMIT, async (t) => {
  const room = await directory(t);
  const target = path.join(room, "big.bin");
  const bytes = randomBytes(400_000);
  const pair = robot([room]);
  for (const [from, to] of [
    [0, 100_000],
    [100_000, 250_000],
  ] as const) {
    const asker = await Asker.open(pair);
    const ready = await asker.ask({ type: "write", path: target, size: bytes.length, sha256: sha256(bytes), mode: 0o644 });
    assert.deepEqual(ready, { type: "ready", path: target, offset: from });
    await asker.send(bytes.subarray(from, to));
    asker.channel.close();
    await until("what was sent is on disk", () => fs.readdirSync(room).some((name) => fs.statSync(path.join(room, name)).size === to));
    assert.equal(fs.existsSync(target), false);
  }
  const { answer, offset } = await (await Asker.open(pair)).put(target, bytes);
  assert.deepEqual([offset, codeOf(answer)], [250_000, "done"]);
  assert.ok(fs.readFileSync(target).equals(bytes));
  assert.deepEqual(fs.readdirSync(room), ["big.bin"]);
});

test("a failed file write leaves no file and does not end the session", LIMIT, async (t) => {
  const room = await directory(t);
  const target = path.join(room, "a");
  const asker = await Asker.open(robot([room]));
  assert.equal(codeOf((await asker.put(target, Buffer.from("these"), sha256(Buffer.from("those")))).answer), "checksum");
  assert.deepEqual(fs.readdirSync(room), []);

  const write = { type: "write", path: target, size: 10, sha256: sha256(Buffer.from("x")), mode: 0o644 } as const;
  assert.equal(codeOf(await asker.ask(write)), "ready");
  await asker.send(Buffer.alloc(11));
  assert.equal(codeOf((await asker.hear()).answer), "bad_request");
  // Data that is still in transit is ignored.
  await asker.send(Buffer.alloc(5));
  await asker.say({ type: "end" });
  assert.equal(codeOf(await asker.ask(write)), "ready");
  assert.equal(codeOf(await asker.ask({ type: "end" })), "bad_request");
  assert.deepEqual(fs.readdirSync(room), []);

  const full = await asker.ask({ ...write, size: 2 ** 50 });
  assert.equal(codeOf(full), "disk_full");
  assert.match(full.type === "failed" ? full.message : "", /disk has only \d+ free/);
  assert.deepEqual(fs.readdirSync(room), []);
  assert.equal(codeOf(await asker.ask({ type: "stat", path: room })), "stat");
});

test("rejects file paths that lead outside the allowed directories", LIMIT, async (t) => {
  const top = await directory(t);
  const room = path.join(top, "room");
  fs.mkdirSync(path.join(room, "sub"), { recursive: true });
  fs.mkdirSync(`${room}-other`);
  fs.writeFileSync(path.join(top, "secret"), "s");
  fs.writeFileSync(path.join(`${room}-other`, "secret"), "s");
  fs.writeFileSync(path.join(room, "fine"), "f");
  fs.symlinkSync("../secret", path.join(room, "link-out"));
  fs.symlinkSync(top, path.join(room, "directory-out"));
  fs.symlinkSync("fine", path.join(room, "link-in"));
  fs.symlinkSync("nowhere", path.join(room, "dangling"));
  const asker = await Asker.open(robot([room]));
  const reads: [string, string][] = [
    [path.join(room, "fine"), "reading"],
    [path.join(room, "link-in"), "reading"],
    [path.join(top, "secret"), "forbidden"],
    [`${room}/../secret`, "forbidden"],
    [`${room}-other/secret`, "forbidden"],
    [path.join(room, "link-out"), "forbidden"],
    [path.join(room, "directory-out", "secret"), "forbidden"],
    [path.join(room, "nothing"), "not_found"],
    [path.join(top, "nothing"), "forbidden"],
    [path.join(room, "fine", "below"), "not_a_directory"],
    [room, "not_a_file"],
    ["/dev/null", "forbidden"],
    ["", "bad_request"],
    ["a\0b", "bad_request"],
    ["/".repeat(5_000), "bad_request"],
    [path.join(room, "n".repeat(300)), "bad_request"],
  ];
  for (const [file, code] of reads) {
    assert.equal(codeOf(await asker.ask({ type: "read", path: file, offset: 0 })), code, file.slice(0, 80));
    if (code === "reading") await asker.hear();
  }
  const bytes = Buffer.from("new");
  const writes: [string, string][] = [
    [path.join(room, "sub", "new"), "done"],
    [path.join(room, "line\nbreak \u202e"), "done"],
    [path.join(top, "new"), "forbidden"],
    [path.join(room, "directory-out", "new"), "forbidden"],
    [path.join(room, "link-out"), "forbidden"],
    [path.join(room, "dangling"), "forbidden"],
    [path.join(room, "sub"), "not_a_file"],
    [path.join(room, "none", "new"), "not_found"],
    [path.join(room, ".."), "forbidden"],
    [path.join(top, "nothing", "new"), "forbidden"],
  ];
  for (const [file, code] of writes) assert.equal(codeOf((await asker.put(file, bytes)).answer), code, file);
  assert.equal(codeOf((await asker.put(path.join(room, "link-in"), bytes)).answer), "done");
  assert.deepEqual(
    [fs.readFileSync(path.join(room, "fine"), "utf8"), fs.lstatSync(path.join(room, "link-in")).isSymbolicLink()],
    ["new", true],
  );
  assert.equal(codeOf(await asker.ask({ type: "mkdir", path: path.join(top, "made"), mode: 0o755 })), "forbidden");
  assert.equal(codeOf(await asker.ask({ type: "list", path: top })), "forbidden");
  assert.deepEqual(fs.readdirSync(top).toSorted(), ["room", "room-other", "secret"]);
});

test("lists a directory with the type of each entry, and symlinks to directories as links", LIMIT, async (t) => {
  const room = await directory(t);
  for (let i = 0; i < 250; i += 1) fs.writeFileSync(path.join(room, `file-${i}`), "x".repeat(i));
  fs.mkdirSync(path.join(room, "sub"), { mode: 0o750 });
  fs.symlinkSync("file-7", path.join(room, "to-file"));
  fs.symlinkSync("sub", path.join(room, "to-directory"));
  fs.symlinkSync("/etc/passwd", path.join(room, "to-outside"));
  fs.writeFileSync(Buffer.concat([Buffer.from(`${room}/`), Buffer.from([0xff, 0xfe])]), "no utf-8");
  const asker = await Asker.open(robot([room]));
  await asker.say({ type: "list", path: room });
  const entries = new Map<string, string>();
  for (;;) {
    const { answer } = await asker.hear();
    if (answer.type === "listed") {
      assert.equal(answer.unnamed, 1);
      break;
    }
    assert.ok(answer.type === "entries" && answer.entries.length <= 100);
    for (const { name, kind, size } of answer.entries) entries.set(name, kind === "file" ? `file ${size}` : kind);
  }
  assert.deepEqual(
    ["file-249", "to-file", "to-directory", "sub", "to-outside"].map((name) => entries.get(name)),
    // The size of a link's target outside the allowed directories is not revealed.
    ["file 249", "file 7", "link", "directory", "link"],
  );
  assert.equal(entries.size, 254);
  assert.equal(codeOf(await asker.ask({ type: "mkdir", path: path.join(room, "sub"), mode: 0o700 })), "made");
  assert.equal(codeOf(await asker.ask({ type: "mkdir", path: path.join(room, "file-1"), mode: 0o700 })), "not_a_directory");
  assert.equal(codeOf(await asker.ask({ type: "mkdir", path: path.join(room, "new"), mode: 0o700 })), "made");
  assert.equal(fs.statSync(path.join(room, "new")).mode & 0o777, 0o700);
});

test("an invalid file request returns an error, an invalid message ends the session", LIMIT, async (t) => {
  const room = await directory(t);
  const pair = robot([room]);
  const asker = await Asker.open(pair);
  const write = { type: "write", path: path.join(room, "x"), size: 1, sha256: sha256(Buffer.from("x")), mode: 0o644 };
  for (const request of [
    {},
    { type: "run" },
    { type: "stat" },
    { type: "stat", path: 7 },
    { ...write, size: -1 },
    { ...write, size: "1" },
    { ...write, sha256: "0" },
    { ...write, mode: "x" },
    { type: "read", path: room, offset: -1 },
  ])
    assert.match(codeOf(await asker.ask(request as never)), /bad_request|not_a_file/, JSON.stringify(request));
  await asker.channel.write(Buffer.from([9, 9]));
  assert.equal((await asker.channel.ended).code, 1008);
});

test(
  "an agent that runs as root serves files with the rights of the configured user",
  { ...LIMIT, skip: process.getuid?.() !== 0 && "needs root" },
  async (t) => {
    const room = await directory(t);
    fs.chmodSync(room, 0o755);
    fs.mkdirSync(path.join(room, "open"));
    fs.chmodSync(path.join(room, "open"), 0o777);
    fs.writeFileSync(path.join(room, "private"), "p", { mode: 0o600 });
    fs.writeFileSync(path.join(room, "public"), "public", { mode: 0o644 });
    const pair = robot([room], "nobody");
    const asker = await Asker.open(pair);
    assert.equal(codeOf(await asker.ask({ type: "read", path: path.join(room, "private"), offset: 0 })), "forbidden");
    assert.equal(codeOf(await asker.ask({ type: "read", path: path.join(room, "public"), offset: 0 })), "reading");
    assert.equal(String((await asker.hear()).data), "public");
    assert.equal(codeOf((await asker.put(path.join(room, "new"), Buffer.from("n"))).answer), "forbidden");
    const bytes = randomBytes(500_000);
    assert.equal(codeOf((await asker.put(path.join(room, "open", "new"), bytes)).answer), "done");
    assert.ok(fs.readFileSync(path.join(room, "open", "new")).equals(bytes));
    assert.notEqual(fs.statSync(path.join(room, "open", "new")).uid, 0);
    asker.channel.close();
    await until("the session is over", () => pair.robot.size === 0);

    const crowded = robot([room], "nobody");
    const askers: Asker[] = [];
    for (let i = 0; i < PROCESSES_MAX; i += 1) askers.push(await Asker.open(crowded));
    assert.equal((await (await Asker.open(crowded)).channel.ended).code, 4429);
    for (const { channel } of askers) channel.close();
    await until("the sessions are over", () => crowded.robot.size === 0);

    const unnamed = channelPair({
      files: filesSource({ directories: ["/"], state_directory: "/nowhere", user: undefined, ...REST }),
    });
    const { code, reason } = await (await unnamed.server.open("files", "camera")).ended;
    assert.equal(code, 4410);
    assert.match(reason, /runs as root: set the user/);
  },
);

test("rejects access to the agent's state directory through any path", LIMIT, async (t) => {
  const around = await directory(t);
  const state = path.join(around, "state");
  fs.mkdirSync(path.join(state, "identity"), { recursive: true, mode: 0o700 });
  fs.mkdirSync(path.join(state, "apps", "main"), { recursive: true });
  const key = path.join(state, "identity", "key.pem");
  fs.writeFileSync(key, "the private key", { mode: 0o600 });
  fs.symlinkSync(state, path.join(around, "link"));
  fs.symlinkSync(key, path.join(around, "key-link"));
  fs.linkSync(key, path.join(around, "second-name"));
  const child = spawn("sleep", ["600"], { cwd: state, stdio: "ignore" });
  t.after(() => child.kill("SIGKILL"));
  const names = [
    key,
    path.join(around, "link", "identity", "key.pem"),
    path.join(around, "key-link"),
    path.join(around, "second-name"),
    `/proc/self/root${key}`,
    `/proc/1/root${key}`,
    `/proc/${process.pid}/root${key}`,
    `/proc/${process.pid}/task/${process.pid}/root${key}`,
    `/proc/${child.pid}/cwd/identity/key.pem`,
    path.join(around, "x", "..", "state", "identity", "key.pem"),
    `${around}/apps/../state/apps/../identity/key.pem`,
    path.relative(os.homedir(), key),
  ];
  const bind = path.join(around, "bind");
  fs.mkdirSync(bind);
  for (const [what, name] of [
    [state, path.join(bind, "identity", "key.pem")],
    [path.join(state, "identity"), path.join(bind, "key.pem")],
  ] as const) {
    if (process.getuid?.() !== 0 || spawnSync("mount", ["--bind", what, bind]).status !== 0) continue;
    const asker = await Asker.open(robot(["/"], undefined, state));
    const answer = await asker.ask({ type: "read", path: name, offset: 0 });
    spawnSync("umount", [bind]);
    assert.equal(answer.type === "failed" && answer.code, "forbidden", `${name}: ${JSON.stringify(answer)}`);
  }
  const asker = await Asker.open(robot(["/"], undefined, state));
  for (const name of names) {
    const answer = await asker.ask({ type: "read", path: name, offset: 0 });
    assert.ok(answer.type === "failed" && ["forbidden", "not_found"].includes(answer.code), `read ${name}: ${JSON.stringify(answer)}`);
    if (name.endsWith("second-name")) continue;
    const bytes = Buffer.from("other bytes");
    const written = await asker.ask({ type: "write", path: name, size: bytes.length, sha256: sha256(bytes), mode: 0o600 });
    assert.ok(written.type === "failed" && ["forbidden", "not_found"].includes(written.code), `write ${name}: ${JSON.stringify(written)}`);
  }
  for (const name of [state, path.join(state, "apps"), path.join(around, "link"), `/proc/self/root${state}`]) {
    for (const type of ["list", "stat"] as const) {
      const answer = await asker.ask({ type, path: name });
      assert.ok(answer.type === "failed" && answer.code === "forbidden", `${type} ${name}: ${JSON.stringify(answer)}`);
    }
    const made = await asker.ask({ type: "mkdir", path: path.join(name, "new"), mode: 0o755 });
    assert.ok(made.type === "failed" && made.code === "forbidden", `mkdir ${name}: ${JSON.stringify(made)}`);
  }
  assert.equal(fs.readFileSync(key, "utf8"), "the private key");
  assert.deepEqual(fs.readdirSync(path.join(state, "identity")), ["key.pem"]);
  // Files outside of the state directory are served.
  fs.writeFileSync(path.join(around, "map.bin"), "a map");
  assert.equal((await asker.ask({ type: "stat", path: path.join(around, "map.bin") })).type, "stat");
});
