/** Intervals that the figures are made of; older ones are forgotten. */
const WINDOW_MAX = 10_000;

export interface TopicRate {
  /** Messages a second, with those that were left out on the way. */
  rate: number;
  /** Of intervals between messages that followed each other; null when there is none. */
  min_s: number | null;
  max_s: number | null;
  std_dev_s: number | null;
  /** Messages that the rate is of. */
  window: number;
}

interface Interval {
  seconds: number;
  /** Messages that were left out within it. */
  skipped: number;
}

/** How often messages come, as `rostopic hz` and `ros2 topic hz` count it. */
export class RateMeter {
  readonly #intervals: Interval[] = [];
  #last_ms: number | undefined;

  /** A message that the robot had at `at_ms`, before which `skipped` were left out. */
  add(at_ms: number, skipped: number): void {
    if (this.#last_ms !== undefined) this.#intervals.push({ seconds: Math.max(0, at_ms - this.#last_ms) / 1_000, skipped });
    if (this.#intervals.length > WINDOW_MAX) this.#intervals.shift();
    this.#last_ms = at_ms;
  }

  /** Undefined before the second message. */
  read(): TopicRate | undefined {
    if (this.#intervals.length === 0) return undefined;
    const total_s = this.#intervals.reduce((sum, { seconds }) => sum + seconds, 0);
    const messages = this.#intervals.reduce((sum, { skipped }) => sum + skipped + 1, 0);
    const next = this.#intervals.filter(({ skipped }) => skipped === 0).map(({ seconds }) => seconds);
    const mean = next.reduce((sum, seconds) => sum + seconds, 0) / next.length;
    const variance = next.reduce((sum, seconds) => sum + (seconds - mean) ** 2, 0) / next.length;
    const known = next.length > 0;
    return {
      rate: total_s === 0 ? 0 : messages / total_s,
      min_s: known ? next.reduce((a, b) => Math.min(a, b)) : null,
      max_s: known ? next.reduce((a, b) => Math.max(a, b)) : null,
      std_dev_s: known ? Math.sqrt(variance) : null,
      window: messages + 1,
    };
  }
}

/** In the words of ROS's own tools. */
export function rateText({ rate, min_s, max_s, std_dev_s, window }: TopicRate): string {
  const seconds = (value: number | null, digits: number): string => (value === null ? "-" : `${value.toFixed(digits)}s`);
  return `average rate: ${rate.toFixed(3)}\n\tmin: ${seconds(min_s, 3)} max: ${seconds(max_s, 3)} std dev: ${seconds(std_dev_s, 5)} window: ${window}`;
}
