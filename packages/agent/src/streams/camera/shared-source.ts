import type { Clock, Timer } from "@roamfleet/clock";
import { type Channel, CLOSE_NOT_AVAILABLE, dataMessage } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { type CameraRequest, type FrameSource, LEVELS_COUNT, pictureAt, type SourceEnd } from "./frame-source.ts";

const OBSERVE_MS = 1_000;
/**
 * Waits in milliseconds before the restarts of a failed source that has viewers. If the source fails after the last restart, the failure is
 * final. The sum of the waits is long enough for a network camera, which takes about a minute to boot.
 */
const RESTART_MS = [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000, 15_000, 15_000];
/** Maximum wait for the camera's previous source to end. */
const EARLIER_END_MS_MAX = 10_000;
/** Minimum duration of a run after which the next failure starts again from the shortest wait. */
const GOOD_RUN_MS = 30_000;

interface SharedSourceOptions {
  name: string;
  source: FrameSource;
  request: CameraRequest;
  clock: Clock;
  log: Logger;
  /** Resolves when the camera's previous source has ended. The new source waits for it before it starts, for at most EARLIER_END_MS_MAX. */
  after: Promise<void> | undefined;
  /**
   * Called once. Its argument is the result if the source has ended, or undefined if the last viewer has left. Processes of the source may
   * still be running.
   */
  over: (end: SourceEnd | undefined) => void;
}

/** A running source that all channels with the same request share. It starts with the first channel and stops with the last. */
export class SharedSource {
  /** Resolves when all processes of the source have ended. */
  readonly done: Promise<void>;
  readonly #options: SharedSourceOptions;
  readonly #outputs = new Set<CameraOutput>();
  readonly #leaving = new AbortController();
  readonly #observing: Timer;
  #pace: Pace;
  #levels = 1;
  /** Ends the current run when it is aborted. The next run then uses another level. */
  #run = new AbortController();
  #last: Uint8Array | undefined;
  #frames = 0;

  constructor(options: SharedSourceOptions) {
    this.#options = options;
    this.#pace = firstPace(options.request.fps);
    this.#observing = options.clock.every(OBSERVE_MS, () => this.#observe());
    this.done = this.#serve();
  }

  join(channel: Channel): void {
    const output = new CameraOutput(channel, this.#options.clock, this.#pace.fps);
    this.#outputs.add(output);
    if (this.#last !== undefined) output.offer(this.#last);
    void channel.ended.then(() => {
      output.stop();
      this.#outputs.delete(output);
      if (this.#outputs.size === 0) this.#end(undefined);
    });
  }

  async #serve(): Promise<void> {
    const { source, clock, log, name, after } = this.#options;
    // The previous source may never end, if a camera driver hangs and its child is in uninterruptible sleep. After the timeout, start this
    // source anyway; at worst it finds the device busy.
    if (after !== undefined) await Promise.race([after, clock.sleep(EARLIER_END_MS_MAX, this.#leaving.signal)]);
    if (source.adjustable()) this.#levels = LEVELS_COUNT;
    for (let failures = 0; !this.#leaving.signal.aborted;) {
      this.#run = new AbortController();
      const { level } = this.#pace;
      const [began_at, frames] = [clock.monotonic(), this.#frames];
      const end = await this.#runOnce(this.#run.signal);
      if (this.#leaving.signal.aborted) return;
      if (this.#pace.level !== level) continue;
      const good = this.#frames > frames && clock.monotonic() - began_at >= GOOD_RUN_MS;
      const wait = RESTART_MS[good ? 0 : failures];
      failures = good ? 1 : failures + 1;
      log.warn({ camera: name, reason: end.reason }, "a camera's source ended");
      // Do not restart a source that has never produced a picture.
      if (!end.failed || end.final === true || this.#frames === 0 || wait === undefined) return this.#end(end);
      await clock.sleep(wait, this.#leaving.signal);
    }
  }

  #runOnce(run: AbortSignal): Promise<SourceEnd> {
    const { source, request } = this.#options;
    return source.run({
      picture: pictureAt(request, this.#pace.level),
      signal: AbortSignal.any([this.#leaving.signal, run]),
      frame: (jpeg) => {
        this.#frames += 1;
        this.#last = jpeg;
        for (const output of this.#outputs) output.offer(jpeg);
      },
      refused: () => this.#tooLarge(),
    });
  }

  /** Handles a frame that is too large. Reduces quality and size if possible; otherwise the source fails. */
  #tooLarge(): void {
    if (this.#run.signal.aborted) return;
    const { level } = this.#pace;
    if (level >= this.#levels - 1)
      return this.#end({ failed: true, reason: "the camera's frames are over 512 KiB: request a smaller width or quality" });
    this.#setPace({ ...this.#pace, level: level + 1, frame_bytes: 0, age: 0, ease: 0 });
  }

  #observe(): void {
    const all = Array.from(this.#outputs, (output) => output.carried()).filter((one) => one !== undefined);
    // All outputs share the network, so the most blocked output determines the pace.
    const worst = all.toSorted((a, b) => partBlocked(b) - partBlocked(a))[0];
    if (worst !== undefined) this.#setPace(nextPace(this.#pace, this.#options.request.fps, this.#levels, worst));
  }

  #setPace(pace: Pace): void {
    const { level } = this.#pace;
    this.#pace = pace;
    for (const output of this.#outputs) output.fps = pace.fps;
    if (pace.level === level) return;
    this.#options.log.info(
      { camera: this.#options.name, level: pace.level, fps: pace.fps },
      "adapted the picture of a camera to the network",
    );
    this.#run.abort();
  }

  #end(end: SourceEnd | undefined): void {
    if (this.#leaving.signal.aborted) return;
    this.#leaving.abort();
    this.#observing.cancel();
    this.#last = undefined;
    this.#options.over(end);
    for (const { channel } of Array.from(this.#outputs))
      channel.close(end?.failed === false ? 1000 : CLOSE_NOT_AVAILABLE, end?.reason ?? "");
  }
}

const partBlocked = ({ blocked_ms, elapsed_ms }: Carried): number => blocked_ms / Math.max(1, elapsed_ms);

/** Fraction of the interval by which a frame may be early, since the intervals of sources vary. */
const EARLY = 0.3;
/** If sending a frame takes longer than this, the wait so far counts as blocked time. */
const REPORT_BLOCKED_MS = 5_000;

/** Sends frames to one channel. Each time the previous frame has been sent, sends the newest one, at most at the given rate. */
export class CameraOutput {
  readonly channel: Channel;
  readonly #clock: Pick<Clock, "monotonic" | "setTimer">;
  /** Interval between two frames in milliseconds. */
  #interval_ms: number;
  #newest: Uint8Array | undefined;
  #due_at: number;
  #timer: Timer | undefined;
  #sending_since: number | undefined;
  #since: number;
  #blocked_ms = 0;
  #bytes = 0;
  #frames = 0;

  constructor(channel: Channel, clock: Pick<Clock, "monotonic" | "setTimer">, fps: number) {
    this.channel = channel;
    this.#clock = clock;
    this.#interval_ms = 1_000 / fps;
    this.#since = clock.monotonic();
    this.#due_at = this.#since;
  }

  set fps(fps: number) {
    this.#interval_ms = 1_000 / fps;
  }

  /** Passes a frame to be sent. If the previous frame has not been sent yet, the new one replaces it. */
  offer(jpeg: Uint8Array): void {
    this.#newest = jpeg;
    this.#sendWhenDue();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#newest = undefined;
  }

  /** Returns what was sent since the last call. Undefined if nothing was sent but a frame is still being sent. */
  carried(): Carried | undefined {
    const now = this.#clock.monotonic();
    if (this.#sending_since !== undefined) {
      const waited = now - this.#sending_since;
      if (this.#frames === 0 && waited < REPORT_BLOCKED_MS) return undefined;
      this.#blocked_ms += waited;
      this.#sending_since = now;
    }
    const carried = { elapsed_ms: now - this.#since, blocked_ms: this.#blocked_ms, bytes: this.#bytes, frames: this.#frames };
    this.#since = now;
    this.#blocked_ms = this.#bytes = this.#frames = 0;
    return carried;
  }

  #sendWhenDue(): void {
    if (this.#sending_since !== undefined || this.#timer !== undefined) return;
    const now = this.#clock.monotonic();
    const wait = this.#due_at - this.#interval_ms * EARLY - now;
    if (wait <= 0) return void this.#send(now);
    this.#timer = this.#clock.setTimer(wait, () => {
      this.#timer = undefined;
      void this.#send(this.#clock.monotonic());
    });
  }

  async #send(now: number): Promise<void> {
    const jpeg = this.#newest;
    if (jpeg === undefined) return;
    this.#newest = undefined;
    // After a pause of the source, do not send faster to catch up.
    this.#due_at = Math.max(this.#due_at, now - this.#interval_ms) + this.#interval_ms;
    this.#sending_since = now;
    const sent = (await this.channel.write(dataMessage(jpeg))) && (await this.channel.drained());
    this.#blocked_ms += this.#clock.monotonic() - this.#sending_since;
    this.#sending_since = undefined;
    if (!sent) return;
    this.#bytes += jpeg.length;
    this.#frames += 1;
    if (this.#newest !== undefined) this.#sendWhenDue();
  }
}

/** What the network carried in an interval. Sizes are in bytes, times in milliseconds. */
interface Carried {
  elapsed_ms: number;
  /** Time in which a frame waited to be sent. */
  blocked_ms: number;
  bytes: number;
  frames: number;
}

export interface Pace {
  /** Frames per second, at most as many as requested. */
  fps: number;
  /** Level by which quality and size are reduced; 0 is as requested. */
  level: number;
  /** Estimated capacity of the network in bytes per second; Infinity while no limit was seen. */
  budget: number;
  /** Typical length of a frame at this level; 0 before the first frame. */
  frame_bytes: number;
  /** Number of observations since the level last changed. */
  age: number;
  /** Number of consecutive observations in which a better level would have fit. */
  ease: number;
}

/** Minimum fraction of the time in which frames wait for the network to count as saturated. Then its throughput is its capacity. */
const BUSY = 0.6;
/** Fraction of the network's capacity to use. The rest lets other traffic, and each frame, pass without delay. */
const HEADROOM = 0.85;
const GROWTH = 1.1;
/** The capacity counts as unlimited if it is more than this many times what the requested rate needs. */
const NEED_FACTOR = 4;
/** Minimum frame rate before quality and size are reduced. A lower requested rate takes precedence. */
const FPS_FLOOR = 3;
const FPS_MIN = 0.2;
/** Assumed factor between the bytes of a frame at a level and at the next one. */
const LEVEL_GAIN = 1.8;
/** Minimum number of observations between two reductions, since the source restarts at each new level. */
const AGE_MIN = 3;
/**
 * Number of consecutive observations in which a better level must fit before it is used. It is larger than AGE_MIN, so that quality
 * recovers more slowly than it is reduced.
 */
const EASE_MIN = 10;

export const firstPace = (asked_fps: number): Pace => ({ fps: asked_fps, level: 0, budget: Infinity, frame_bytes: 0, age: 0, ease: 0 });

/**
 * Computes the next pace from what the network has just carried. On a saturated network the rate is reduced first. If fewer than FPS_FLOOR
 * frames a second fit, quality and size are reduced, down to the last of `levels`. They recover in the opposite order, more slowly.
 */
export function nextPace(pace: Pace, asked_fps: number, levels: number, carried: Carried): Pace {
  const { bytes, frames } = carried;
  const frame_bytes = frames === 0 ? pace.frame_bytes : smooth(pace.frame_bytes, bytes / frames);
  const need = asked_fps * frame_bytes;
  const budget = nextBudget(pace.budget, carried, need);
  const affordable = frame_bytes === 0 ? asked_fps : budget / frame_bytes;
  const floor = Math.min(asked_fps, FPS_FLOOR);
  const fps = Math.min(asked_fps, Math.max(FPS_MIN, affordable));
  const age = pace.age + 1;
  if (affordable < floor && age >= AGE_MIN && pace.level < levels - 1)
    return changed(pace.level + 1, fps, budget, frame_bytes / LEVEL_GAIN);
  const eased = pace.level > 0 && affordable / LEVEL_GAIN >= Math.min(asked_fps, 2 * floor);
  const ease = eased ? pace.ease + 1 : 0;
  if (ease >= EASE_MIN) return changed(pace.level - 1, fps, budget, frame_bytes * LEVEL_GAIN);
  return { fps, level: pace.level, budget, frame_bytes, age, ease };
}

const changed = (level: number, fps: number, budget: number, frame_bytes: number): Pace => ({
  fps,
  level,
  budget,
  frame_bytes,
  age: 0,
  ease: 0,
});

const smooth = (before: number, now: number): number => (before === 0 ? now : before * 0.7 + now * 0.3);

/**
 * Estimates the network's capacity. If the network is saturated, this is its throughput less HEADROOM. Otherwise the previous estimate
 * grows slowly until it counts as unlimited.
 */
function nextBudget(before: number, { elapsed_ms, blocked_ms, bytes }: Carried, need: number): number {
  if (blocked_ms > 0 && blocked_ms >= elapsed_ms * BUSY) return Math.max(1, ((bytes * 1_000) / blocked_ms) * HEADROOM);
  if (before === Infinity) return before;
  const grown = before * GROWTH;
  return need > 0 && grown > need * NEED_FACTOR ? Infinity : grown;
}
