/** A clock change takes effect on deletions after the process has run this long with it, on the monotonic clock. */
export const HOLD_MS = 86_400_000;
/** Reading two clocks one after the other takes up to some milliseconds. */
const NOISE_MS = 1_000;
/** Bounds the history: a server in a restart loop adds a jump at each start. */
const JUMPS_MAX = 32;

/** A step of the wall clock ahead of the monotonic clock that is younger than HOLD_MS. */
export interface ForwardJump {
  ahead_ms: number;
  /** Running time since the step, over all runs of the server. */
  held_ms: number;
}

/** History of the wall clock: the last reading, and the forward jumps that are not trusted yet, oldest first. */
export interface ClockHistory {
  readonly seen_at: Date;
  readonly jumps: readonly ForwardJump[];
}

/**
 * Adds a reading of the wall clock, `elapsed_ms` of the monotonic clock after the last one. After a restart the elapsed time is unknown
 * and counts as 0: a server that was off for a month and a clock that is a month ahead look the same.
 */
export function observe({ seen_at, jumps }: ClockHistory, now: Date, elapsed_ms: number): ClockHistory {
  const pending = jumps
    .map(({ ahead_ms, held_ms }) => ({ ahead_ms, held_ms: held_ms + elapsed_ms }))
    .filter(({ held_ms }) => held_ms < HOLD_MS);
  const jump_ms = now.getTime() - seen_at.getTime() - elapsed_ms;
  if (jump_ms > NOISE_MS) pending.push({ ahead_ms: jump_ms, held_ms: 0 });
  else if (jump_ms < 0) takeBack(pending, -jump_ms);
  while (pending.length > JUMPS_MAX) mergeNewest(pending);
  return { seen_at: now, jumps: pending };
}

/** Returns the time for deletions by age: the last reading minus the jumps that are not trusted yet. Never later than the reading. */
export const trustedTime = (history: ClockHistory): Date => new Date(history.seen_at.getTime() - untrustedMs(history));

/** How far the wall clock is ahead of the trusted time. */
export const untrustedMs = ({ jumps }: ClockHistory): number => jumps.reduce((sum, { ahead_ms }) => sum + ahead_ms, 0);

/** A step back cancels the newest forward jumps. The rest of it lowers the trusted time, so that fewer rows are deleted. */
function takeBack(pending: ForwardJump[], back_ms: number): void {
  for (let left = back_ms; left > 0;) {
    const newest = pending.at(-1);
    if (newest === undefined) return;
    const taken = Math.min(left, newest.ahead_ms);
    newest.ahead_ms -= taken;
    left -= taken;
    if (newest.ahead_ms === 0) pending.pop();
  }
}

function mergeNewest(pending: ForwardJump[]): void {
  const [before, newest] = pending.splice(-2) as [ForwardJump, ForwardJump];
  pending.push({ ahead_ms: before.ahead_ms + newest.ahead_ms, held_ms: newest.held_ms });
}
