import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Stream } from "@robofleet/sdk";
import { RfHome } from "../../packages/cli/src/testing/run-rf.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { promiseSize } from "../harness/promise.ts";

/** 200 kbit/s each way. */
const BYTES_PER_SECOND = 25_000;
const DELAY_MS = 150;
const RESET_EVERY_MS = promiseSize({ test: 8_000, full: 60_000 });
const KEYSTROKES = promiseSize({ test: 80, full: 600 });
const KEY_EVERY_MS = promiseSize({ test: 200, full: 400 });
/** What comes so soon after a reset does not count. */
const AFTER_RESET_MS = 5_000;
/** `npm test` runs beside everything else: there only a line that is stuffed with pictures and files fails, by seconds. */
const SLACK = promiseSize({ test: 3, full: 1 });
const ECHO_P95_MS = 900 * SLACK;
const ECHO_P99_MS = 1_500 * SLACK;
const FRAME_GAP_MS = 2_000 * SLACK;
const KEY = "x";

/** When the line was reset; from then on for a while nothing counts. */
class Resets {
  readonly at: number[] = [];
  get count(): number {
    return this.at.length;
  }
  /** Whether any part of a time lies in what does not count. */
  touched(from: number, to: number): boolean {
    return this.at.some((reset) => to >= reset && from <= reset + AFTER_RESET_MS);
  }
}

/** Opens a stream again each time that it ends, until `over`. */
async function keepOpen(open: () => Promise<Stream>, over: AbortSignal, use: (stream: Stream) => Promise<void>): Promise<void> {
  while (!over.aborted) {
    try {
      await use(await open());
    } catch {
      // The robot is not back yet.
    }
    await sleep(50);
  }
}

/** A terminal in which every key comes back as it is; keys whose echo was lost with the line are given up. */
class Typist {
  readonly echoes: { typed: number; ms: number }[] = [];
  typed = 0;
  #stream: Stream | undefined;
  #waiting: number[] = [];

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
        if (typed !== undefined) this.echoes.push({ typed, ms: performance.now() - typed });
      }
    }
    this.#stream = undefined;
  }

  press(): void {
    if (this.#stream === undefined) return;
    this.typed += 1;
    this.#waiting.push(performance.now());
    void this.#stream.send(Buffer.from(KEY));
  }
}

const percentile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? Number.NaN;

/** The longest time without a frame, apart from what a reset explains. */
function longestGap(frames: readonly number[], resets: Resets): number {
  return frames.slice(1).reduce((longest, at, i) => {
    const before = frames[i] ?? at;
    return resets.touched(before, at) ? longest : Math.max(longest, at - before);
  }, 0);
}

async function startRobot(plane: Harness): Promise<LiveRobot> {
  const user = process.getuid?.() === 0 ? { user: "root" } : {};
  return LiveRobot.start(plane, { robot: { shell: user, cameras: [{ name: "test", kind: "test_picture" }] } });
}

test(
  "at 200 kbit/s and 300 ms, with the line reset now and then, keys come back soon while a camera streams and a file is copied",
  { timeout: 20 * 60_000 },
  async (t) => {
    await using plane = await startPlane();
    await using robot = await startRobot(plane);
    await using home = await RfHome.make();
    const top = fs.realpathSync(await mkdtemp(path.join(tmpdir(), "robofleet-slow-")));
    t.after(() => rm(top, { recursive: true, force: true }));
    // More than comes through while keys are pressed.
    const bytes = randomBytes((KEYSTROKES * KEY_EVERY_MS * BYTES_PER_SECOND) / 1_000);
    fs.writeFileSync(path.join(top, "bag"), bytes);
    robot.line.shape = { delay_ms: DELAY_MS, bytes_per_second: { up: BYTES_PER_SECOND, down: BYTES_PER_SECOND } };

    const over = new AbortController();
    const resets = new Resets();
    const typist = new Typist();
    const frames: number[] = [];
    const robot_id = robot.id;
    const command = "stty raw -echo && printf ready && exec cat";
    const shell = keepOpen(
      () => plane.api.stream("shell", { robot_id, query: { command }, protocols: ["robofleet.shell.v1"], signal: over.signal }),
      over.signal,
      (stream) => typist.serve(stream),
    );
    const camera = keepOpen(
      () => plane.api.stream("camera", { robot_id, query: { fps: 2, width: 320, quality: 40 }, signal: over.signal }),
      over.signal,
      async (stream) => {
        for await (const { binary } of stream) if (binary) frames.push(performance.now());
      },
    );
    // A call may take a minute in tests; the next one goes on where it stopped.
    const copy = (async () => {
      while (!over.signal.aborted)
        await home.run(["robots", "cp", `${robot_id}:${top}/bag`, path.join(top, "copy")], {
          env: { ROBOFLEET_BASE_URL: plane.url, ROBOFLEET_TOKEN: plane.default_org.admin_token },
          signal: over.signal,
        });
    })();
    const partBytes = (): number =>
      fs
        .readdirSync(top)
        .filter((name) => name.endsWith(".part"))
        .reduce((sum, name) => sum + fs.statSync(path.join(top, name)).size, 0);
    await plane.until("all three to run", () => frames.length > 1 && partBytes() > 10_000);

    const began = performance.now();
    const copied_before = partBytes();
    for (let last_reset = began; typist.echoes.length < KEYSTROKES; await sleep(KEY_EVERY_MS)) {
      typist.press();
      if (performance.now() - last_reset < RESET_EVERY_MS) continue;
      last_reset = performance.now();
      resets.at.push(last_reset);
      robot.line.reset();
    }
    const seconds = (performance.now() - began) / 1_000;
    const copied = partBytes() - copied_before;
    over.abort();
    await Promise.all([shell, camera, copy]);

    const counted = typist.echoes.filter(({ typed, ms }) => !resets.touched(typed, typed + ms)).map(({ ms }) => ms);
    const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => Math.round(percentile(counted, share)));
    const gap = Math.round(longestGap(frames, resets));
    t.diagnostic(
      `${counted.length} of ${typist.typed} keys count, ${resets.count} resets in ${seconds.toFixed(0)} s: echo p50 ${p50} ms, p95 ${p95} ms, p99 ${p99} ms; ` +
        `${frames.length} frames, longest gap ${gap} ms; ${copied} bytes of the file came (${Math.round(copied / seconds)} a second)`,
    );
    assert.ok(resets.count > 0 && counted.length > KEYSTROKES / 4, `${counted.length} keys, ${resets.count} resets`);
    assert.ok(p95! <= ECHO_P95_MS, `p95 ${p95} ms`);
    assert.ok(p99! <= ECHO_P99_MS, `p99 ${p99} ms`);
    assert.ok(gap <= FRAME_GAP_MS, `${gap} ms without a frame`);
    assert.ok(copied > seconds * 1_000, `${copied} bytes of the file in ${seconds} s`);
  },
);
