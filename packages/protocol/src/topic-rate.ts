export interface TopicRate {
  /** Messages per second, including skipped ones. */
  rate: number;
  /** Shortest interval in seconds. This and the next two fields cover only intervals without skipped messages; null if there are none. */
  min_s: number | null;
  max_s: number | null;
  std_dev_s: number | null;
  /** Number of messages from which the rate is computed, including skipped ones. */
  window: number;
}

/**
 * Measures the message rate of a ROS topic as `rostopic hz` and `ros2 topic hz` do. Uses the robot's times instead of arrival times, so
 * that network jitter does not change the rate.
 */
export class TopicRateMeter {
  readonly #intervals_max: number;
  readonly #intervals: { seconds: number; skipped: number }[] = [];
  #last_ms: number | undefined;

  /** `intervals_max` is the maximum number of intervals that are measured. At this number, the oldest is dropped. */
  constructor(intervals_max: number) {
    this.#intervals_max = intervals_max;
  }

  /** Adds a message that the robot received at `at_ms`. `skipped` messages before it were skipped. */
  add(at_ms: number, skipped: number): void {
    if (this.#last_ms !== undefined) this.#intervals.push({ seconds: Math.max(0, at_ms - this.#last_ms) / 1_000, skipped });
    if (this.#intervals.length > this.#intervals_max) this.#intervals.shift();
    this.#last_ms = at_ms;
  }

  /** Returns the current rate; undefined before the second message. */
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
