import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Stream } from "@roamfleet/sdk";
import { RfHome } from "../../packages/cli/src/testing/run-rf.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { checkTime, promiseSize } from "../harness/promise.ts";

/** 200 kbit/s each way. */
const BYTES_PER_SECOND = 25_000;
const DELAY_MS = 150;
const RESET_EVERY_MS = promiseSize({ test: 8_000, full: 60_000 });
const KEYSTROKES = promiseSize({ test: 80, full: 600 });
const KEY_EVERY_MS = promiseSize({ test: 200, full: 400 });
/** For this long after a reset, arriving data is not measured. */
const AFTER_RESET_MS = 5_000;
/** Minimum number of keys, and of bytes of the file, that must arrive between two resets. A slow machine needs time to reconnect. */
const KEYS_BETWEEN = 5;
const COPIED_BETWEEN = 30_000;
const ECHO_P95_MS = 900;
const ECHO_P99_MS = 1_500;
const FRAME_GAP_MS = 2_000;
/**
 * Tolerance of the limits when measured in transferred bytes, which a busy machine does not increase. Gaps exceed this tolerance only if
 * camera frames and the file delay the shell.
 */
const SLACK = 3;
const bytesIn = (ms: number): number => (ms * SLACK * BYTES_PER_SECOND) / 1_000;
const KEY = "x";

/** The time of an event, and the number of bytes that the connection had transferred by then. */
interface Moment {
  at: number;
  carried: number;
}

/** The distance between two moments. */
interface Gap {
  ms: number;
  bytes: number;
}

/** Times of resets. For AFTER_RESET_MS after each, nothing is measured. */
class Resets {
  readonly at: number[] = [];
  get count(): number {
    return this.at.length;
  }
  /** Reports whether an interval overlaps a time that is not measured. */
  touched(from: number, to: number): boolean {
    return this.at.some((reset) => to >= reset && from <= reset + AFTER_RESET_MS);
  }
}

/** Opens a stream again each time it ends, until `over`. */
async function keepOpen(open: () => Promise<Stream>, over: AbortSignal, use: (stream: Stream) => Promise<void>): Promise<void> {
  while (!over.aborted) {
    try {
      await use(await open());
    } catch {
      // The robot is not connected yet.
    }
    await sleep(50);
  }
}

/** A terminal that echoes each key. Keys whose echo was lost with a connection are not waited for. */
class Typist {
  readonly echoes: { typed: number; ms: number; bytes: number }[] = [];
  typed = 0;
  readonly #now: () => Moment;
  #stream: Stream | undefined;
  #waiting: Moment[] = [];

  constructor(now: () => Moment) {
    this.#now = now;
  }

  async serve(stream: Stream): Promise<void> {
    let ready = false;
    for await (const { binary, data } of stream) {
      if (!binary) continue;
      const text = data.toString("latin1");
      if (!ready && text.includes("ready")) {
        ready = true;
        this.#waiting = [];
        this.#stream = stream;
        continue;
      }
      for (const key of text) {
        const typed = key === KEY ? this.#waiting.shift() : undefined;
        if (typed === undefined) continue;
        const { at, carried } = this.#now();
        this.echoes.push({ typed: typed.at, ms: at - typed.at, bytes: carried - typed.carried });
      }
    }
    this.#stream = undefined;
  }

  press(): void {
    if (this.#stream === undefined) return;
    this.typed += 1;
    this.#waiting.push(this.#now());
    void this.#stream.send(Buffer.from(KEY));
  }
}

const percentile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? Number.NaN;

/** Returns the longest time, and the most transferred bytes, between two frames, apart from resets. */
function longestGap(frames: readonly Moment[], resets: Resets): Gap {
  const gaps = frames.slice(1).flatMap((frame, i) => {
    const before = frames[i] ?? frame;
    return resets.touched(before.at, frame.at) ? [] : [{ ms: frame.at - before.at, bytes: frame.carried - before.carried }];
  });
  return { ms: Math.max(0, ...gaps.map(({ ms }) => ms)), bytes: Math.max(0, ...gaps.map(({ bytes }) => bytes)) };
}

interface Measured {
  typed: number;
  echoes: readonly { ms: number; bytes: number }[];
  frames: readonly Moment[];
  resets: Resets;
  seconds: number;
  /** Bytes of the file, and of all traffic. */
  copied: number;
  carried: number;
}

function judge(t: TestContext, { typed, echoes, frames, resets, seconds, copied, carried }: Measured): void {
  const of = (share: number): Gap => ({
    ms: percentile(
      echoes.map(({ ms }) => ms),
      share,
    ),
    bytes: percentile(
      echoes.map(({ bytes }) => bytes),
      share,
    ),
  });
  t.diagnostic(
    `${echoes.length} of ${typed} keys count, ${resets.count} resets in ${seconds.toFixed(0)} s: echo p50 ${Math.round(of(0.5).ms)} ms; ` +
      `${frames.length} frames; ${copied} bytes of the file came (${Math.round(copied / seconds)} a second) of ${carried} on the line`,
  );
  assert.ok(resets.count > 0 && echoes.length > KEYSTROKES / 4, `${echoes.length} keys, ${resets.count} resets`);
  for (const [what, { ms, bytes }, most_ms] of [
    ["19 of 20 keys came back", of(0.95), ECHO_P95_MS],
    ["99 of 100 keys came back", of(0.99), ECHO_P99_MS],
    ["the next frame came", longestGap(frames, resets), FRAME_GAP_MS],
  ] as const) {
    checkTime(t, what, ms, most_ms);
    t.diagnostic(`${what} after ${bytes} bytes on the line`);
    assert.ok(bytes <= bytesIn(most_ms), `${what} after ${bytes} bytes on the line`);
  }
  assert.ok(copied > carried / 25, `${copied} bytes of the file of ${carried} on the line`);
}

async function startRobot(plane: Harness): Promise<LiveRobot> {
  const user = process.getuid?.() === 0 ? { user: "root" } : {};
  return LiveRobot.start(plane, { robot: { shell: user, cameras: [{ name: "test", kind: "test_picture" }] } });
}

test("a shell on a slow link stays responsive while a camera streams and a file is copied", { timeout: 20 * 60_000 }, async (t) => {
  await using plane = await startPlane();
  await using robot = await startRobot(plane);
  await using home = await RfHome.make();
  const top = fs.realpathSync(await mkdtemp(path.join(tmpdir(), "roamfleet-slow-")));
  t.after(() => rm(top, { recursive: true, force: true }));
  // The file is larger than what can be transferred while keys are pressed, even if that takes several times as long.
  const bytes = randomBytes((4 * KEYSTROKES * KEY_EVERY_MS * BYTES_PER_SECOND) / 1_000);
  fs.writeFileSync(path.join(top, "bag"), bytes);
  robot.line.shape = { delay_ms: DELAY_MS, bytes_per_second: { up: BYTES_PER_SECOND, down: BYTES_PER_SECOND } };

  const over = new AbortController();
  const resets = new Resets();
  const now = (): Moment => ({ at: performance.now(), carried: robot.line.bytes.up });
  const typist = new Typist(now);
  const frames: Moment[] = [];
  const robot_id = robot.id;
  const command = "stty raw -echo && printf ready && exec cat";
  const shell = keepOpen(
    () => plane.api.stream("shell", { robot_id, query: { command }, protocols: ["roamfleet.shell.v1"], signal: over.signal }),
    over.signal,
    (stream) => typist.serve(stream),
  );
  const camera = keepOpen(
    () => plane.api.stream("camera", { robot_id, query: { fps: 2, width: 320, quality: 40 }, signal: over.signal }),
    over.signal,
    async (stream) => {
      for await (const { binary } of stream) if (binary) frames.push(now());
    },
  );
  // In this test, a call may take minutes. The next call resumes the copy where this one stopped.
  const copy = (async () => {
    while (!over.signal.aborted)
      await home.run(["robots", "cp", `${robot_id}:${top}/bag`, path.join(top, "copy")], {
        env: { ROAMFLEET_BASE_URL: plane.url, ROAMFLEET_TOKEN: plane.default_org.admin_token },
        signal: over.signal,
      });
  })();
  const partBytes = (): number =>
    fs
      .readdirSync(top)
      .filter((name) => name.endsWith(".part"))
      .reduce((sum, name) => sum + fs.statSync(path.join(top, name)).size, 0);
  await plane.until("all three to run", () => frames.length > 1 && partBytes() > 10_000);

  const counted = () => typist.echoes.filter(({ typed, ms }) => !resets.touched(typed, typed + ms));
  const began = now();
  const copied_before = partBytes();
  let [last_reset, last_count, last_copied] = [began.at, 0, copied_before];
  for (; typist.echoes.length < KEYSTROKES || resets.count === 0; await sleep(KEY_EVERY_MS)) {
    typist.press();
    if (performance.now() - last_reset < RESET_EVERY_MS || counted().length < last_count + KEYS_BETWEEN) continue;
    if (partBytes() < last_copied + COPIED_BETWEEN) continue;
    [last_reset, last_count, last_copied] = [performance.now(), counted().length, partBytes()];
    resets.at.push(last_reset);
    robot.line.reset();
  }
  const seconds = (performance.now() - began.at) / 1_000;
  const copied = partBytes() - copied_before;
  const carried = now().carried - began.carried;
  over.abort();
  await Promise.all([shell, camera, copy]);

  judge(t, { typed: typist.typed, echoes: counted(), frames, resets, seconds, copied, carried });
});
