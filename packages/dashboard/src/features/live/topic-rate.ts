/** Messages that the figures are of. */
const WINDOW_MAX = 500;

export interface TopicRate {
  /** Messages a second, with those that were left out on the way. */
  hz: number;
  /** Left out since it was opened. */
  skipped: number;
  messages: number;
}

/** Counts how often messages come, by the robot's own times, so that the line does not blur them. */
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
