import { Coverage, LEGAL_PAIRS } from "./coverage.ts";
import { ManualClock } from "./manual-clock.ts";
import { PureServer } from "./pure/pure-server.ts";
import { type Result, runSchedule, STARTS_AT } from "./schedule.ts";
import type { Plant } from "./server.ts";
import type { Stage } from "./whole/stage.ts";

export interface SimulateOptions {
  mode: "pure" | "whole";
  /** Seed of the first schedule. The seed of each further schedule is one higher. */
  seed: number;
  schedules: number;
  /** A planted fault: the run ends with the first schedule that finds it. */
  plant?: Plant | undefined;
  /** Called for each schedule that broke a rule, before the run ends. */
  onBroken?: (broken: Broken) => void;
}

export type Broken = NonNullable<Result["broken"]> & { seed: number };

export interface Tally {
  schedules: number;
  steps: number;
  seconds: number;
  cpu_seconds: number;
  broken: Broken[];
  /** Number of possible pairs of state and event that occurred. */
  visited: number;
  /** Possible pairs that did not occur. */
  missing: string[];
  /** Impossible pairs that occurred. */
  illegal: string[];
  pairs: [pair: string, times: number][];
}

/** Whole schedules are longer, because fewer of them must cover all pairs. */
const STEPS_MORE = { pure: 90, whole: 200 };
/** Concurrent whole schedules: a single one waits for its database most of the time. */
const WHOLE_LANES = 4;
/** Stops after this many broken schedules, because more give no new information. */
const BROKEN_MAX = 100;

/** Runs schedules: one at a time in mode `pure`, four concurrently in mode `whole`. Throws unexpected errors with the seed. */
export async function simulate({ mode, seed, schedules, plant, onBroken }: SimulateOptions): Promise<Tally> {
  const lanes = mode === "pure" ? 1 : WHOLE_LANES;
  const coverage = new Coverage();
  const stage = mode === "pure" ? pureStage(plant) : await (await import("./whole/stage.ts")).wholeStage(plant, lanes);
  const [began, cpu] = [performance.now(), process.cpuUsage()];
  const tally = { schedules: 0, steps: 0, broken: [] as Broken[] };
  let next = 0;
  const runLane = async (_: unknown, lane: number): Promise<void> => {
    while (next < schedules && tally.broken.length < (plant === undefined ? BROKEN_MAX : 1)) {
      const own_seed = seed + next;
      next += 1;
      const result = await runSchedule({
        seed: own_seed,
        steps_more: STEPS_MORE[mode],
        server: stage.server(lane),
        clock: (chance) => new ManualClock(STARTS_AT, chance.next),
        coverage,
      });
      tally.schedules += 1;
      tally.steps += result.steps;
      if (result.broken !== undefined) {
        const broken = { seed: result.seed, ...result.broken };
        tally.broken.push(broken);
        onBroken?.(broken);
      }
      await stage.tidy(lane);
    }
  };
  try {
    await Promise.all(Array.from({ length: lanes }, runLane));
  } finally {
    await stage.end();
  }
  const { user, system } = process.cpuUsage(cpu);
  const legal: ReadonlySet<string> = new Set(LEGAL_PAIRS);
  return {
    ...tally,
    seconds: (performance.now() - began) / 1_000,
    cpu_seconds: (user + system) / 1e6,
    visited: LEGAL_PAIRS.filter((pair) => coverage.visited.has(pair)).length,
    missing: LEGAL_PAIRS.filter((pair) => !coverage.visited.has(pair)),
    illegal: [...coverage.visited.keys()].filter((pair) => !legal.has(pair)),
    pairs: [...coverage.visited].toSorted(([a], [b]) => (a < b ? -1 : 1)),
  };
}

const pureStage = (plant: Plant | undefined): Stage => ({
  server: () => (clock, chance) => new PureServer(clock, chance, plant),
  tidy: async () => {},
  end: async () => {},
});
