import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { until } from "@roamfleet/clock/testing";
import { checkTime, promiseSize, provePromise } from "../harness/promise.ts";
import { ROOT } from "../processes/process.ts";
import { checkOnce, DueDeployments, type Fired, latenessOf } from "./due-deployments.ts";

const LIMIT = { timeout: promiseSize({ test: 240_000, full: 900_000 }) };
const COUNT = promiseSize({ test: 300, full: 10_000 });
const WITHIN_MS = promiseSize({ test: 12_000, full: 60_000 });
const KILLS = promiseSize({ test: 2, full: 4 });
const MADE_WITHIN_MS = promiseSize({ test: 5_000, full: 20_000 });
/** Number of deployments created through the API; the others are created by SQL. */
const BY_API = 100;
/** Deployments due within this time before a kill may be dispatched after the restart, with the bound LATE_MS_AFTER_KILL. */
const BEFORE_KILL_MS = 2_000;
/** For this long after a restart, deployments that come due have the larger bound LATE_MS_AFTER_KILL. */
const CATCH_UP_MS = 5_000;
const LATE_MS_P99 = 2_000;
const LATE_MS_AFTER_KILL = 15_000;
/** Whether the time bounds are checked. They apply only to an otherwise idle machine. */
const MEASURED = promiseSize({ test: 0, full: 1 }) === 1;

const NODES = 3;
const COUNT_ON_THREE = promiseSize({ test: 120, full: 9_800 });
/** Number of connected robots, in addition to the robots created by SQL. Each kill moves their links to another node. */
const ROBOTS_ON_THREE = promiseSize({ test: 12, full: 200 });
const KILLS_ON_THREE = promiseSize({ test: 3, full: 4 });

const JUMPED_COUNT = promiseSize({ test: 60, full: 1_000 });
const JUMPED_WITHIN_MS = promiseSize({ test: 8_000, full: 40_000 });
const FIVE_MINUTES_MS = 300_000;
const NOTHING_FIRES_MS = 3_000;
/** The server counts as idle when nothing was queued for this long. */
const SETTLED_MS = 500;
const IDLE_MS = 1_500;

/** Returns `count` evenly spaced times. */
const spread = (from_ms: number, within_ms: number, count: number): Date[] =>
  Array.from({ length: count }, (_, place) => new Date(from_ms + Math.round((place * within_ms) / count)));

const p99 = (values: readonly number[]): number => values[Math.ceil(values.length * 0.99) - 1] ?? 0;

/** Lets `count` deployments come due while servers are killed. Checks that each was dispatched once, and returns the figures as text. */
async function fires(t: TestContext, due: DueDeployments, { count, kills }: { count: number; kills: number }): Promise<string> {
  // Create all deployments before the first is due. On a busy machine, some are created too late and are dispatched immediately.
  const from_ms = Date.now() + MADE_WITHIN_MS;
  const moments = spread(from_ms, WITHIN_MS, count);
  const there = due.robots.map((_, place) => moments[Math.floor((place * count) / due.robots.length)]!);
  const others = moments.filter((moment) => !there.includes(moment));
  const by_api = others.filter((_, place) => place % Math.ceil(count / BY_API) === 0);
  await due.scheduleBySql(others.filter((moment) => !by_api.includes(moment)));
  await due.schedule(by_api);
  await due.scheduleForRobots(there);
  if (MEASURED) assert.ok(Date.now() < from_ms, "all are made in time");
  const down: { from: Date; until: Date }[] = [];
  for (let kill = 0; kill < kills; kill += 1)
    down.push(await due.killAt(new Date(from_ms + ((kill + 1) * WITHIN_MS) / (kills + 1)), kill % due.server.nodes.length));
  await due.untilHeld(0);
  await due.untilDispatched();
  const fired = await due.fired();
  checkOnce(fired, count);
  const disturbed = ({ due_at }: Fired): boolean =>
    down.some(({ from, until }) => due_at.getTime() > from.getTime() - BEFORE_KILL_MS && due_at.getTime() < until.getTime() + CATCH_UP_MS);
  const [calm, after_kill] = [latenessOf(fired.filter((one) => !disturbed(one))), latenessOf(fired.filter(disturbed))];
  const [late, worst] = [p99(calm), after_kill.at(-1) ?? 0];
  t.diagnostic(`${calm.length} while all run: p50 ${calm[calm.length >> 1]} ms, p99 ${late} ms, max ${calm.at(-1)} ms`);
  t.diagnostic(`${after_kill.length} around a kill: p50 ${after_kill[after_kill.length >> 1]} ms, max ${worst} ms`);
  const handed_over = latenessOf(fired, "dispatched_at");
  t.diagnostic(`handed to their robots: p50 ${handed_over[count >> 1]} ms, p99 ${p99(handed_over)} ms, max ${handed_over.at(-1)} ms`);
  if (MEASURED) assert.ok(calm.length > count / 10, "some came due in peace");
  checkTime(t, "late by p99", late, LATE_MS_P99);
  checkTime(t, "late at most around a kill", worst, LATE_MS_AFTER_KILL);
  return (
    `${count} deployments due within ${WITHIN_MS / 1_000} s (${by_api.length + there.length} made through the API, the rest by SQL): each fired once and was dispatched once, 0 early; ` +
    `late at p99 ${late} ms while all run, ${worst} ms at most around a kill; handed to its robot after ${p99(handed_over)} ms at p99`
  );
}

test("a scheduled deployment is dispatched once and on time, even if the server is killed meanwhile", LIMIT, async (t) => {
  await using due = await DueDeployments.start(COUNT);
  const figures = await fires(t, due, { count: COUNT, kills: KILLS });
  provePromise(t, 18, `the server killed ${KILLS} times: ${figures}`);
});

test("three nodes dispatch a scheduled deployment once and on time, even if they are killed in turn", LIMIT, async (t) => {
  await using due = await DueDeployments.start(COUNT_ON_THREE, { nodes: NODES });
  await due.connectRobots(ROBOTS_ON_THREE);
  const count = COUNT_ON_THREE + ROBOTS_ON_THREE;
  const figures = await fires(t, due, { count, kills: KILLS_ON_THREE });
  await due.untilRobotsRun();
  provePromise(
    t,
    18,
    `one of ${NODES} nodes killed ${KILLS_ON_THREE} times: ${figures}; ${ROBOTS_ON_THREE} of the robots were connected, and received one deployment each`,
  );
});

test("a scheduled deployment is dispatched once, and not early, when the server's clock jumps five minutes", LIMIT, async (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-clock-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const file = path.join(directory, "offset");
  const jump = (offset_ms: number): void => writeFileSync(file, String(offset_ms));
  jump(0);
  await using due = await DueDeployments.start(JUMPED_COUNT, {
    env: {
      SHIFTED_CLOCK_FILE: file,
      NODE_OPTIONS: `--import=${pathToFileURL(path.join(ROOT, "tests/processes/shifted-clock.ts")).href}`,
    },
  });
  const half = JUMPED_COUNT / 2;
  const from_ms = Date.now() + 3_000;
  const moments = [...spread(from_ms, JUMPED_WITHIN_MS, half), ...spread(from_ms + FIVE_MINUTES_MS, JUMPED_WITHIN_MS, half)];
  await due.scheduleBySql(moments.slice(1));
  await due.schedule(moments.slice(0, 1));

  await due.untilHeld(JUMPED_COUNT - half / 4);
  jump(-FIVE_MINUTES_MS);
  // Deployments that were in progress when the clock was set may still finish.
  const held = await until("what was begun to end", async () => {
    const before = await due.held();
    await sleep(SETTLED_MS);
    return (await due.held()) === before && before;
  });
  await sleep(NOTHING_FIRES_MS);
  assert.equal(await due.held(), held, "it fired five minutes early");
  await due.killAt(new Date());
  assert.equal(await due.held(), held, "it fired five minutes early");
  // Wait until the scheduler sleeps. The next deployment is due in five minutes.
  await sleep(IDLE_MS);
  const noticed: number[] = [];
  const noticedAfter = async (held_max: number): Promise<void> => {
    const jumped_at = performance.now();
    await due.untilHeld(held_max);
    noticed.push(Math.round(performance.now() - jumped_at));
  };
  jump(0);
  await noticedAfter(held - 1);
  // The whole first half is now due, and the second half begins.
  jump(FIVE_MINUTES_MS);
  await noticedAfter(half);
  await due.untilHeld(half / 2);
  await due.killAt(new Date());
  jump(0);
  await due.killAt(new Date());
  jump(FIVE_MINUTES_MS);
  await due.untilHeld(0);
  await due.untilDispatched();
  checkOnce(await due.fired(), JUMPED_COUNT);
  const slowest = Math.max(...noticed);
  t.diagnostic(`a jump was noticed after ${noticed.join(", ")} ms`);
  if (MEASURED) assert.ok(slowest <= LATE_MS_P99, `noticed after ${slowest} ms`);
  provePromise(
    t,
    18,
    `${JUMPED_COUNT} deployments, the server's clock set five minutes back and forth four times and the server killed three times: each fired once, 0 early by its clock; ` +
      `what came due by a jump fired within ${slowest} ms of it`,
  );
});
