import type { Output } from "./output.ts";

export interface Progress {
  update(done: number, total: number): void;
  stop(): void;
}

/** Work that is shorter than this shows no bar. */
const SHOW_TOTAL_MIN = 1_000_000;

/** A bar on stderr while it is a terminal, else nothing. `format` writes the amounts. */
export async function startProgress(out: Output, title: string, format: (amount: number) => string): Promise<Progress> {
  if (!out.can_animate) return { update: () => {}, stop: () => {} };
  const { default: progress } = await import("cli-progress");
  const bar = new progress.SingleBar({
    format: `${title} {bar} {percentage} %  {amounts}`,
    barsize: 30,
    barCompleteChar: "━",
    barIncompleteChar: "─",
    hideCursor: true,
    clearOnComplete: true,
    stream: process.stderr,
  });
  return {
    update: (done, total) => {
      if (total < SHOW_TOTAL_MIN) return;
      const amounts = `${format(done)} of ${format(total)}`;
      if (bar.isActive) bar.update(done, { amounts });
      else bar.start(total, done, { amounts });
    },
    stop: () => bar.stop(),
  };
}
