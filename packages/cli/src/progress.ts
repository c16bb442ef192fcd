import type { Clock } from "@roamfleet/clock";
import { duration } from "./duration.ts";
import type { Output } from "./output.ts";

export interface Progress {
  update(done: number, total: number): void;
  stop(): void;
}

/** Minimum total of a task that shows a progress bar. */
const SHOW_TOTAL_MIN = 1_000_000;
/** The speed is averaged over this time, so that earlier speeds do not affect the estimate of the remaining time. */
const SPEED_MS = 10_000;
const MARK_MS = 500;

/** Shows a progress bar with speed and remaining time on stderr if it is a terminal, otherwise nothing. `format` formats the amounts. */
export async function startProgress(out: Output, clock: Clock, title: string, format: (amount: number) => string): Promise<Progress> {
  if (!out.can_animate) return { update: () => {}, stop: () => {} };
  const { default: progress } = await import("cli-progress");
  const bar = new progress.SingleBar({
    format: `${title} {bar} {percentage}%  {amounts}`,
    barsize: 18,
    barCompleteChar: "━",
    barIncompleteChar: "─",
    hideCursor: true,
    clearOnComplete: true,
    // Ctrl-C is handled in main.ts or by the command.
    gracefulExit: false,
    stream: process.stderr,
  });
  const speed = new Speed();
  return {
    update: (done, total) => {
      if (total < SHOW_TOTAL_MIN) return;
      const per_second = speed.at(clock.monotonic(), done);
      const left = per_second === undefined || done === total ? "" : `  ${duration(Math.ceil((total - done) / per_second))} left`;
      const amounts = `${format(done)} of ${format(total)}${per_second === undefined ? "" : `  ${format(per_second)}/s`}${left}`;
      out.in_line = true;
      if (bar.isActive) bar.update(done, { amounts });
      else bar.start(total, done, { amounts });
    },
    stop: () => {
      bar.stop();
      out.in_line = false;
    },
  };
}

/** Measures the recent growth rate of an amount. */
export class Speed {
  #marks: { at_ms: number; done: number }[] = [];

  /** Returns the amount per second; undefined if there is too little data. A decrease restarts the measurement. */
  at(now_ms: number, done: number): number | undefined {
    if (done < (this.#marks.at(-1)?.done ?? 0)) this.#marks = [];
    if (now_ms - (this.#marks.at(-1)?.at_ms ?? -Infinity) >= MARK_MS) this.#marks.push({ at_ms: now_ms, done });
    while (this.#marks.length > 1 && now_ms - this.#marks[1]!.at_ms >= SPEED_MS) this.#marks.shift();
    const first = this.#marks[0]!;
    return now_ms - first.at_ms < MARK_MS || done === first.done ? undefined : ((done - first.done) * 1_000) / (now_ms - first.at_ms);
  }
}
