import assert from "node:assert/strict";
import { hash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import type { WebSocket } from "ws";
import { Failure } from "../failure.ts";
import { RfHome, type RfResult } from "../testing/run-rf.ts";
import { ScriptedPeer } from "../testing/scripted-peer.ts";
import { nameFor, parseCopy, parseCopyPlace } from "./copy-place.ts";

const TIMEOUT = { timeout: 120_000 };
type Request = Record<string, unknown> & { type: string };
type Say = (answer: Record<string, unknown> | Buffer) => void;

/** Runs `rf robots cp -r SOURCE copied` in a temporary directory against a robot scripted by the test. */
async function copyFrom(
  robot: (request: Request, say: Say, socket: WebSocket) => void,
  { source = "rob_1:/dir", into_directory = false } = {},
): Promise<RfResult & { home: string; files: string[] }> {
  await using home = await RfHome.make();
  await using service = await ScriptedPeer.start(
    () => undefined,
    (socket) =>
      socket.on("message", (data: Buffer) =>
        robot(
          JSON.parse(String(data)) as Request,
          (answer) => socket.send(Buffer.isBuffer(answer) ? answer : JSON.stringify(answer)),
          socket,
        ),
      ),
  );
  const target = path.join(home.directory, "copied");
  if (into_directory) fs.mkdirSync(target);
  const result = await home.run(["robots", "cp", "-r", source, target], { env: service.env });
  const files = fs.existsSync(target) ? fs.readdirSync(target, { recursive: true }).map(String) : [];
  return { ...result, home: home.directory, files };
}

const STAT = { size: 5, mode: 0o644, version: "1" };
const sha256 = (text: string): string => hash("sha256", text);

test("rf robots cp rejects file names from a robot that lead outside the target directory", TIMEOUT, async () => {
  for (const name of ["../evil", "..", "/etc/evil", "a/../../evil", "", "nul\0"]) {
    const { code, stderr, home, files } = await copyFrom((request, say) => {
      if (request.type === "stat") say({ type: "stat", path: "/dir", kind: "directory", ...STAT });
      else if (request.type === "list") {
        say({ type: "entries", entries: [{ name, kind: "file", ...STAT }] });
        say({ type: "listed", unnamed: 0 });
      } else assert.fail(`asked for ${request.type}`);
    });
    assert.deepEqual([code, files], [1, []], stderr);
    assert.match(stderr, /the robot sent an invalid file name/);
    assert.equal(fs.existsSync(path.join(home, "evil")), false);
  }
});

test("rf robots cp into a directory uses the requested name and rejects unsafe names", TIMEOUT, async () => {
  const answering = (resolved: string) => (request: Request, say: Say) => {
    if (request.type === "stat") say({ type: "stat", path: resolved, kind: "directory", ...STAT });
    else say({ type: "listed", unnamed: 0 });
  };
  for (const resolved of ["/x/..", "/", "", "/x/."]) {
    const { code, stderr, files } = await copyFrom(answering(resolved), { source: "rob_1:", into_directory: true });
    assert.deepEqual([code, files], [1, []], stderr);
    assert.match(stderr, /the robot sent an invalid file name/, resolved);
  }
  for (const [source, resolved, files] of [
    ["rob_1:nav/", "/x/.ssh", ["nav"]],
    ["rob_1:.", "/home/pi", ["pi"]],
    ["rob_1:/", "/", []],
  ] as const) {
    const copied = await copyFrom(answering(resolved), { source, into_directory: true });
    assert.deepEqual([copied.code, copied.files], [0, files], copied.stderr);
  }
});

test("rf robots cp keeps no file after a wrong checksum or a failure during the transfer", TIMEOUT, async () => {
  const read = (done: Record<string, unknown>) => (request: Request, say: Say) => {
    if (request.type === "stat") return say({ type: "stat", path: "/file", kind: "file", ...STAT });
    say({ type: "reading", path: "/file", ...STAT, offset: request["offset"] });
    say(Buffer.from("12345"));
    say(done);
  };
  const wrong = await copyFrom(read({ type: "done", path: "/file", bytes: 5, moved: 5, sha256: sha256("other") }));
  assert.deepEqual([wrong.code, wrong.files], [1, []]);
  assert.match(wrong.stderr, /wrong checksum/);
  const changing = await copyFrom(read({ type: "failed", code: "changed", message: "/file: the file was changed during the transfer" }));
  assert.deepEqual([changing.code, changing.files], [1, []]);
  assert.match(changing.stderr, /changed during the transfer/);
});

test("rf robots cp fails on an unexpected response from the robot", TIMEOUT, async () => {
  for (const [answer, words] of [
    [{ type: "made" }, /robot sent made/],
    [Buffer.from("bytes"), /sent bytes instead of a response/],
  ] as const) {
    const { code, stderr } = await copyFrom((_request, say) => say(answer));
    assert.equal(code, 1);
    assert.match(stderr, words);
  }
});

const endings: [number, number, RegExp][] = [
  [4409, 7, /^agent offline/],
  [4401, 4, /revoked or has expired/],
  [4403, 4, /your role no longer allows you to copy files/],
  [4410, 1, /robot ended the stream: disabled/],
  [4429, 1, /too many open streams/],
];
for (const [close_code, exit_code, words] of endings) {
  test(`rf robots cp exits ${exit_code} when the stream closes with ${close_code} before the transfer`, TIMEOUT, async () => {
    const { code, stderr } = await copyFrom((_request, _say, socket) => socket.close(close_code, "disabled"));
    assert.match(stderr, words);
    assert.equal(code, exit_code);
  });
}

test("rf robots cp parses text before a colon as a robot ID unless it contains a slash", () => {
  const places: [string, string | undefined, string][] = [
    ["rob_1:/var/log", "rob_1", "/var/log"],
    ["rob_1:maps/a:b", "rob_1", "maps/a:b"],
    ["rob_1:", "rob_1", "."],
    ["./a:b", undefined, "./a:b"],
    ["/tmp/a:b", undefined, "/tmp/a:b"],
    [":x", undefined, ":x"],
    ["map.pgm", undefined, "map.pgm"],
  ];
  for (const [text, robot_id, path] of places) assert.deepEqual(parseCopyPlace(text), { robot_id, path }, text);
});

test("rf robots cp requires one path on a robot and one local path", () => {
  assert.equal(parseCopy("a", "rob_1:b").robot_id, "rob_1");
  assert.equal(parseCopy("rob_1:b", ".").robot_id, "rob_1");
  for (const [from, to] of [
    ["a", "b"],
    ["rob_1:a", "rob_2:b"],
    ["", "rob_1:b"],
  ] as const)
    assert.throws(
      () => parseCopy(from, to),
      (error) => error instanceof Failure && error.exit_code === 2,
      `${from} ${to}`,
    );
});

test("derives the name of a copied file or directory from its source path", () => {
  assert.equal(nameFor("logs/nav.log", "/home/pi/logs/nav.log"), "nav.log");
  assert.equal(nameFor("logs/", "/home/pi/.ssh"), "logs");
  assert.equal(nameFor(".", "/home/pi"), "pi");
  assert.equal(nameFor("../..", "/home"), "home");
  assert.equal(nameFor("a/..", "/home/pi"), "pi");
});
