/** Number of messages from which the rate is computed. */
const WINDOW_MAX = 500;

export interface TopicRate {
  /** Messages per second, including skipped ones. */
  hz: number;
  /** Messages skipped since the stream opened. */
  skipped: number;
  messages: number;
}

/** Measures the message rate by the robot's timestamps, so that network jitter does not affect it. */
export function createRateMeter() {
  let [skipped_all, messages] = [0, 0];
  let steps: { at: number; count: number }[] = [];
  return {
    add(at: string, skipped: number): void {
      messages += 1;
      skipped_all += skipped;
      steps = [...steps.slice(1 - WINDOW_MAX), { at: Date.parse(at), count: skipped + 1 }];
    },
    read(): TopicRate {
      const [first, last] = [steps[0], steps.at(-1)];
      const seconds = first === undefined || last === undefined ? 0 : (last.at - first.at) / 1_000;
      const count = steps.slice(1).reduce((sum, step) => sum + step.count, 0);
      return { hz: seconds > 0 ? count / seconds : 0, skipped: skipped_all, messages };
    },
  };
}
