import { performance } from "node:perf_hooks";
import type { Clock, Timer } from "@roamfleet/clock";
import { takeGc } from "@roamfleet/protocol/minor-gc";

const EVERY_MS = 30_000;
/** A process that works for a larger share of the time is not idle. */
const IDLE_SHARE_MAX = 0.05;
/** With more links, a collection would stop the process for too long. With 1,000 it takes about 0.1 s. */
const IDLE_LINKS_MAX = 1_000;
/** Memory is released again when it has grown by this factor since the last time. */
const GROWTH_MIN = 1.25;

export interface Usage {
  /** Share of the time since the last look in which the process worked: 0 to 1. */
  busy_share: number;
  links: number;
  /** Resident memory, and what it was after the last release: 0 before the first one. */
  rss: number;
  released_rss: number;
}

/** Whether the process is idle, and has probably more memory than it needs. Pure. */
export const shouldRelease = ({ busy_share, links, rss, released_rss }: Usage): boolean =>
  busy_share <= IDLE_SHARE_MAX && links <= IDLE_LINKS_MAX && rss > released_rss * GROWTH_MIN;

/** V8 discards the bytecode of a function that was not called between this number of collections. */
const COLLECTIONS = 3;

/** Collects garbage and returns the free memory of V8's heap to the operating system. */
export function releaseMemory(): void {
  const gc = takeGc();
  for (let i = 0; i < COLLECTIONS; i += 1) gc({ type: "major", execution: "sync", flavor: "last-resort" });
}

/**
 * Releases memory while the process is idle: after its start, and after many robots have left. V8 keeps the memory of its largest load
 * otherwise, and does not collect garbage while nothing is allocated.
 */
export function startReleasingMemory(clock: Clock, links: () => number): Timer {
  let released_rss = 0;
  let last = performance.eventLoopUtilization();
  return clock.every(EVERY_MS, () => {
    const now = performance.eventLoopUtilization();
    const { utilization: busy_share } = performance.eventLoopUtilization(now, last);
    last = now;
    if (!shouldRelease({ busy_share, links: links(), rss: process.memoryUsage.rss(), released_rss })) return;
    releaseMemory();
    released_rss = process.memoryUsage.rss();
  });
}
