import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { until } from "@roamfleet/clock/testing";
import type { ReportBody, TargetReport } from "@roamfleet/protocol/link";
import { type KillDriverTask, outboxOf, placesOf } from "./kill-driver.ts";

const { ROAMFLEET_TEST_PROGRAMS: bundles } = process.env;
/** The bundle, if the test run made one: an agent takes 0.2 s of CPU time less to start, and these tests start a hundred. */
const DRIVER = bundles ? path.join(bundles, "kill-driver", "kill-driver.mjs") : path.join(import.meta.dirname, "kill-driver.ts");
const FINAL = ["applied", "rolled_back", "failed", "cancelled"];

/** Starts an agent in a separate process. */
export const startAgent = (task: KillDriverTask): ChildProcess =>
  spawn(process.execPath, [DRIVER, JSON.stringify(task)], { stdio: ["ignore", "inherit", "inherit"] });

export async function end(child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill(signal);
  await ended;
}

/** Returns the reports of a target, from all agents that used this state directory. */
export const targetReports = (state: string, target_id: string): TargetReport[] =>
  linesOf(outboxOf(state))
    .map((line) => JSON.parse(line) as ReportBody)
    .filter((body): body is TargetReport => body.kind === "target" && body.target_id === target_id);

const linesOf = (file: string): string[] => (fs.existsSync(file) ? fs.readFileSync(file, "utf8").split("\n").filter(Boolean) : []);

/** Returns the final status of a target, from the reports of all agents that used this state directory. */
export const finalStatus = (state: string, target_id: string): string | undefined =>
  targetReports(state, target_id)
    .map(({ status }) => status)
    .findLast((status) => FINAL.includes(status));

export interface KilledRun {
  task: Omit<KillDriverTask, "kill_at">;
  target_id: string;
  /** Name of the last kill point that a complete run passes. */
  last_place: string;
  /** The final status that the target must have, at whatever point the agent was killed. */
  status: string;
}

/**
 * Runs an agent that is killed at one point, then an agent that completes the work. Returns `killed` false if the run had
 * no such point.
 */
export async function runKilledAt(kill_at: number, run: KilledRun): Promise<{ child: ChildProcess; killed: boolean }> {
  const { task, target_id, last_place, status } = run;
  const first = startAgent({ ...task, kill_at });
  try {
    const isOver = (): boolean => finalStatus(task.state, target_id) !== undefined && linesOf(placesOf(task.state)).includes(last_place);
    await until("the kill, or the end", () => first.exitCode !== null || first.signalCode !== null || isOver());
  } finally {
    await end(first, "SIGTERM");
  }
  const killed = first.signalCode === "SIGKILL";
  assert.ok(killed || first.exitCode === 0, `it exited: ${first.signalCode ?? first.exitCode}`);
  const child = startAgent({ ...task, kill_at: 0 });
  try {
    assert.equal(
      await until(`the end after a kill at place ${kill_at}`, () => finalStatus(task.state, target_id)),
      status,
      `place ${kill_at}`,
    );
  } catch (error) {
    await end(child, "SIGKILL");
    throw error;
  }
  return { child, killed };
}

/**
 * Repeats a run for each kill point, several runs in parallel, until a run has no such point. Returns the number of points.
 */
export async function killEverywhere(
  { parallel, places_max }: { parallel: number; places_max: number },
  killAt: (place: number) => Promise<boolean>,
): Promise<number> {
  let next = 1;
  let places = places_max;
  const work = async (): Promise<void> => {
    for (let place = next++; place < places; place = next++) if (!(await killAt(place))) places = Math.min(places, place);
  };
  await Promise.all(Array.from({ length: parallel }, work));
  return places - 1;
}
