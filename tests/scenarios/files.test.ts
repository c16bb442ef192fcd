import assert from "node:assert/strict";
import { hash, randomBytes } from "node:crypto";
import fs from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { RfHome, type RfCall, type RfResult } from "../../packages/cli/src/testing/run-rf.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { promiseSize } from "../harness/promise.ts";
import { LiveRobot, type LiveRobotOptions } from "../harness/live-robot.ts";
import { Proxy } from "../harness/proxy.ts";

const TIMEOUT = { timeout: 300_000 };
const MIB = 1024 * 1024;
const sha256 = (bytes: Uint8Array): string => hash("sha256", bytes);
/** Files are accessed as the user that runs these tests. */
const SHELL = process.getuid?.() === 0 ? { user: "root" } : {};

interface Scene extends AsyncDisposable {
  plane: Harness;
  robot: LiveRobot;
  /** The proxy between rf and the plane. */
  line: Proxy;
  /** A directory of the robot and one of this machine. */
  there: string;
  here: string;
  rf: (args: string[], call?: RfCall) => Promise<RfResult>;
  files: () => Promise<Record<string, unknown>[]>;
}

/** Starts a plane and a robot that allows files below `there` only. */
async function startScene(t: TestContext, options: LiveRobotOptions["robot"] | "there" = {}): Promise<Scene> {
  const top = fs.realpathSync(await mkdtemp(path.join(tmpdir(), "roamfleet-cp-")));
  t.after(() => rm(top, { recursive: true, force: true }));
  const [there, here] = [path.join(top, "there"), path.join(top, "here")];
  fs.mkdirSync(there);
  fs.mkdirSync(here);
  const plane = await startPlane();
  const robot = await LiveRobot.start(plane, {
    robot: { shell: SHELL, ...(options === "there" ? { files: { directories: [there] } } : options) },
  });
  const home = await RfHome.make();
  const line = await Proxy.start(() => plane.url);
  return {
    plane,
    robot,
    line,
    there,
    here,
    rf: (args, call) =>
      home.run(["robots", "cp", ...args], {
        ...call,
        env: { ROAMFLEET_BASE_URL: line.url, ROAMFLEET_TOKEN: plane.default_org.admin_token, ...call?.env },
      }),
    files: async () => {
      const { items } = await plane.api.listRobotTimeline({ params: { id: robot.id }, query: { limit: 200 } });
      return items.filter(({ kind }) => kind.startsWith("file.")).map(({ kind, data }) => ({ kind, ...data }));
    },
    async [Symbol.asyncDispose]() {
      await line[Symbol.asyncDispose]();
      await home[Symbol.asyncDispose]();
      await robot[Symbol.asyncDispose]();
      await plane[Symbol.asyncDispose]();
    },
  };
}

const exits = ({ code, stderr }: RfResult, expected: number, words?: RegExp): void => {
  assert.equal(code, expected, stderr);
  if (words !== undefined) assert.match(stderr, words);
};

test("copies a file to and from a robot with its mode, and records it in the timeline", TIMEOUT, async (t) => {
  await using scene = await startScene(t);
  const { robot, there, here, rf } = scene;
  const bytes = randomBytes(3 * MIB);
  fs.writeFileSync(path.join(there, "map.pgm"), bytes, { mode: 0o640 });
  exits(await rf([`${robot.id}:${there}/map.pgm`, here]), 0);
  const copied = path.join(here, "map.pgm");
  assert.ok(fs.readFileSync(copied).equals(bytes));
  assert.equal(fs.statSync(copied).mode & 0o777, 0o640 & ~process.umask());

  fs.writeFileSync(path.join(here, "new.bin"), bytes.subarray(0, 100_000), { mode: 0o600 });
  fs.writeFileSync(path.join(there, "other"), "replaced");
  exits(await rf([`${here}/new.bin`, `${robot.id}:${there}/other`]), 0);
  assert.ok(fs.readFileSync(path.join(there, "other")).equals(bytes.subarray(0, 100_000)));
  assert.equal(fs.statSync(path.join(there, "other")).mode & 0o777, 0o600);

  const again = await rf([`${robot.id}:${there}/map.pgm`, here, "--json"]);
  assert.deepEqual(JSON.parse(again.stdout), {
    data: { files: 1, unchanged: 1, failed: 0, skipped: 0, bytes: 3 * MIB, moved: 0, sha256: sha256(bytes) },
  });
  const entries = await scene.files();
  assert.deepEqual(entries.toReversed(), [
    { kind: "file.read", path: path.join(there, "map.pgm"), bytes: 3 * MIB, moved: 3 * MIB, sha256: sha256(bytes) },
    { kind: "file.written", path: path.join(there, "other"), bytes: 100_000, moved: 100_000, sha256: sha256(bytes.subarray(0, 100_000)) },
    { kind: "file.read", path: path.join(there, "map.pgm"), bytes: 3 * MIB, moved: 0, sha256: sha256(bytes) },
  ]);
  assert.deepEqual(
    [fs.readdirSync(here).toSorted(), fs.readdirSync(there).toSorted()],
    [
      ["map.pgm", "new.bin"],
      ["map.pgm", "other"],
    ],
  );
});

test("a large file copy resumes after disconnects of either end almost without repeated bytes", TIMEOUT, async (t) => {
  await using scene = await startScene(t);
  const { robot, line, there, here, rf } = scene;
  const size = promiseSize({ test: 20, full: 50 }) * MIB;
  const bytes = randomBytes(size);
  fs.writeFileSync(path.join(there, "bag"), bytes);
  // A cut may lose the bytes in flight (windows, queues and socket buffers), not megabytes of the file.
  const bound = 10 * MIB;
  for (const [args, direction, target] of [
    [[`${robot.id}:${there}/bag`, `${here}/bag`], "down", `${here}/bag`],
    [[`${here}/bag`, `${robot.id}:${there}/bag-again`], "up", `${there}/bag-again`],
  ] as const) {
    const before = line.bytes[direction];
    const passed = (): number => line.bytes[direction] - before;
    const running = rf([...args]);
    await scene.plane.until("a third to have come", () => passed() > size / 3);
    line.reset();
    await scene.plane.until("two thirds to have come", () => passed() > (2 * size) / 3);
    robot.line.reset();
    exits(await running, 0, /connection lost; reconnecting/);
    assert.ok(fs.readFileSync(target).equals(bytes), direction);
    assert.ok(passed() <= size * 1.02 + bound, `${passed()} bytes for ${size}`);
    t.diagnostic(`${direction}: ${passed()} bytes over the line for a file of ${size}`);
  }
  assert.deepEqual([fs.readdirSync(here), fs.readdirSync(there).toSorted()], [["bag"], ["bag", "bag-again"]]);
  const entries = await scene.files();
  assert.equal(entries.filter(({ kind, sha256: known }) => kind === "file.read" && known === null).length, 2);
});

test("rf resumes a file copy after it was killed", TIMEOUT, async (t) => {
  await using scene = await startScene(t);
  const { robot, line, there, here, rf } = scene;
  const size = 20 * MIB;
  const bytes = randomBytes(size);
  fs.writeFileSync(path.join(there, "bag"), bytes);
  for (const [args, direction, target] of [
    [[`${robot.id}:${there}/bag`, here], "down", `${here}/bag`],
    [[`${here}/bag`, `${robot.id}:${there}/again`], "up", `${there}/again`],
  ] as const) {
    line.shape = { bytes_per_second: { [direction]: 20 * MIB } };
    const before = line.bytes[direction];
    const killed = new AbortController();
    const running = rf([...args], { signal: killed.signal });
    await scene.plane.until("half to have come", () => line.bytes[direction] - before > size / 2);
    killed.abort();
    await running;
    assert.equal(fs.existsSync(target), false);
    line.shape = {};
    const answer = await rf([...args, "--json"]);
    exits(answer, 0);
    const { moved } = (JSON.parse(answer.stdout) as { data: { moved: number } }).data;
    assert.ok(moved < size * 0.75, `${direction}: ${moved} of ${size} bytes were sent again`);
    assert.ok(fs.readFileSync(target).equals(bytes), direction);
  }
});

test("copies directories to and from a robot, and continues after files that cannot be copied", TIMEOUT, async (t) => {
  await using scene = await startScene(t);
  const { robot, there, here, rf } = scene;
  const tree = path.join(there, "nav");
  fs.mkdirSync(path.join(tree, "maps", "empty"), { recursive: true });
  for (let i = 0; i < 25; i += 1) fs.writeFileSync(path.join(tree, "maps", `map ${i}`), `map ${i}`.repeat(i * 100));
  fs.writeFileSync(path.join(tree, "line\nbreak"), "x");
  fs.symlinkSync("maps/map 3", path.join(tree, "latest"));
  fs.symlinkSync("maps", path.join(tree, "loop"));
  exits(await rf([`${robot.id}:${tree}`, here]), 2, /-r to copy directories/);
  exits(await rf(["-r", `${robot.id}:${tree}`, here]), 0, /skipped loop: a link/);
  const copy = path.join(here, "nav");
  assert.deepEqual(fs.readdirSync(copy).toSorted(), ["latest", "line\nbreak", "maps"]);
  assert.deepEqual(
    [fs.readdirSync(path.join(copy, "maps")).length, fs.readFileSync(path.join(copy, "latest"), "utf8").length],
    [26, 1_500],
  );

  // Copy the directory back under another name. Then change one file, and put a directory in the place of another.
  const made = await rf(["-r", copy, `${robot.id}:${there}/back`]);
  exits(made, 0);
  assert.deepEqual(fs.readdirSync(path.join(there, "back", "maps")).length, 26);
  fs.writeFileSync(path.join(copy, "maps", "map 1"), "changed");
  fs.rmSync(path.join(there, "back", "maps", "map 2"));
  fs.mkdirSync(path.join(there, "back", "maps", "map 2"));
  const again = await rf(["-r", `${copy}/.`, `${robot.id}:${there}/back/`, "--json"]);
  exits(again, 0);
  const partly = await rf(["-r", `${copy}/maps`, `${robot.id}:${there}/back/`, "--json"]);
  exits(partly, 1, /map 2: .*this is a directory[^]*1 files were not copied/);
  const { files, unchanged, failed } = (JSON.parse(partly.stdout) as { data: Record<string, number> }).data;
  assert.deepEqual([files, unchanged, failed], [24, 23, 1]);
  assert.equal(fs.readFileSync(path.join(there, "back", "maps", "map 1"), "utf8"), "changed");
});

test("rf exits with different codes for forbidden, missing and invalid paths", TIMEOUT, async (t) => {
  await using scene = await startScene(t, "there");
  const { plane, robot, there, here, rf } = scene;
  exits(await rf([`${robot.id}:${there}/nothing`, here]), 5, /no such file/);
  exits(await rf([`${robot.id}:/etc/hostname`, here]), 1, /allows files only below .*there/);
  exits(await rf(["a", "b"]), 2, /one path must be on a robot/);
  exits(await rf(["rob_nothing:/x", here]), 5);
  exits(await rf([`${robot.id}:${there}/x`, here], { env: { ROAMFLEET_TOKEN: await plane.token({ role: "viewer" }) } }), 4);
  await robot.stop();
  const { items } = await plane.api.listRobots({});
  exits(await rf([`${items[0]?.id}:${there}/x`, here]), 7, /^agent offline/);
});

test("a robot with file access disabled refuses to copy files", TIMEOUT, async (t) => {
  await using scene = await startScene(t, { streams: { shell: true, camera: true, topics: true, forward: true, files: false } });
  exits(await scene.rf([`${scene.robot.id}:/etc/hostname`, scene.here]), 1, /disabled on the robot/);
  assert.deepEqual(fs.readdirSync(scene.here), []);
});
