import type { Clock, Timer } from "@roamfleet/clock";
import { type Channel, CLOSE_NOT_AVAILABLE } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { CameraOutput } from "./camera-output.ts";
import type { FrameSource, SourceEnd } from "./frame-source.ts";
import { type Carried, firstPace, nextPace, type Pace } from "./pace.ts";
import { type CameraRequest, LEVELS_COUNT, pictureAt } from "./request.ts";

const OBSERVE_MS = 1_000;
/** Waits between restarts while there are viewers; after the last one the source fails. A network camera takes about a minute to boot. */
const RESTART_MS = [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000, 15_000, 15_000];
/** Maximum wait for an earlier source to end. */
const EARLIER_END_MS_MAX = 10_000;
/** After a run of this length the next failure starts again from the shortest wait. */
const GOOD_RUN_MS = 30_000;

export interface SharedSourceOptions {
  name: string;
  source: FrameSource;
  request: CameraRequest;
  clock: Clock;
  log: Logger;
  /** The end of an earlier source of the camera, which must be awaited first. */
  after: Promise<void> | undefined;
  /** Called once when no viewer is left; the source may still be about to end. */
  over: (end: SourceEnd | undefined) => void;
}

/** One running source for all channels with the same request: it starts with the first and ends with the last. */
export class SharedSource {
  /** Resolves when all of its processes are gone. */
  readonly done: Promise<void>;
  readonly #options: SharedSourceOptions;
  readonly #outputs = new Set<CameraOutput>();
  readonly #leaving = new AbortController();
  readonly #observing: Timer;
  #pace: Pace;
  #levels = 1;
  /** Ends the current run, so that the next one uses another level. */
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
    // A child in uninterruptible sleep (a camera driver that hangs) does not end: another one is tried then, which at worst finds the device busy.
    if (after !== undefined) await Promise.race([after, clock.sleep(EARLIER_END_MS_MAX, this.#leaving.signal)]);
    if (await source.adjustable()) this.#levels = LEVELS_COUNT;
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
      // A source that never had a picture fails immediately.
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

  /** Handles a frame over the limit: quality and size are reduced if possible; otherwise the source fails. */
  #tooLarge(): void {
    if (this.#run.signal.aborted) return;
    const { level } = this.#pace;
    if (level >= this.#levels - 1)
      return this.#end({ failed: true, reason: "its frames are over 512 KiB: ask for a smaller width or quality" });
    this.#setPace({ ...this.#pace, level: level + 1, frame_bytes: 0, age: 0, ease: 0 });
  }

  #observe(): void {
    const all = Array.from(this.#outputs, (output) => output.carried()).filter((one) => one !== undefined);
    // All outputs share the network: the one that is blocked most determines the pace.
    const worst = all.toSorted((a, b) => partBlocked(b) - partBlocked(a))[0];
    if (worst !== undefined) this.#setPace(nextPace(this.#pace, this.#options.request.fps, this.#levels, worst));
  }

  #setPace(pace: Pace): void {
    const { level } = this.#pace;
    this.#pace = pace;
    for (const output of this.#outputs) output.fps = pace.fps;
    if (pace.level === level) return;
    this.#options.log.info({ camera: this.#options.name, level: pace.level, fps: pace.fps }, "adjusted a camera to the network");
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
