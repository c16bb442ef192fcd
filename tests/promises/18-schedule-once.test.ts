import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { ROOT } from "../processes/process.ts";
import { checkOnce, DueDeployments, type Fired, latenessOf } from "./due-deployments.ts";

const LIMIT = { timeout: promiseSize({ test: 240_000, full: 900_000 }) };
const COUNT = promiseSize({ test: 300, full: 10_000 });
const WITHIN_MS = promiseSize({ test: 12_000, full: 60_000 });
const KILLS = promiseSize({ test: 2, full: 4 });
/** The rest is written by SQL. */
const BY_API = 100;
/** What is due shortly before the server is killed may not be done when it dies. */
const BEFORE_KILL_MS = 2_000;
/** When it is back, it has this long for what came due meanwhile before the usual bound is asked of it. */
const CATCH_UP_MS = 5_000;
const LATE_MS_P99 = 2_000;
const LATE_MS_AFTER_KILL = 15_000;
/** The bounds are those of a machine that does nothing else. */
const MEASURED = promiseSize({ test: 0, full: 1 }) === 1;

const JUMPED_COUNT = promiseSize({ test: 60, full: 1_000 });
const JUMPED_WITHIN_MS = promiseSize({ test: 8_000, full: 40_000 });
const FIVE_MINUTES_MS = 300_000;
const NOTHING_FIRES_MS = 3_000;
const IDLE_MS = 1_500;

/** Moments, evenly spread. */
const spread = (from_ms: number, within_ms: number, count: number): Date[] =>
  Array.from({ length: count }, (_, place) => new Date(from_ms + Math.round((place * within_ms) / count)));

const p99 = (values: readonly number[]): number => values[Math.ceil(values.length * 0.99) - 1] ?? 0;

test("what is scheduled fires once and on time, with the server killed while it comes due", LIMIT, async (t) => {
  await using due = await DueDeployments.start(COUNT);
  // Long enough from now that all are made before the first is due.
  const from_ms = Date.now() + promiseSize({ test: 5_000, full: 20_000 });
  const moments = spread(from_ms, WITHIN_MS, COUNT);
  const by_api = moments.filter((_, place) => place % Math.ceil(COUNT / BY_API) === 0);
  await due.scheduleBySql(moments.filter((moment) => !by_api.includes(moment)));
  await due.schedule(by_api);
  assert.ok(Date.now() < from_ms, "all are made in time");
  const down: { from: Date; until: Date }[] = [];
  for (let kill = 1; kill <= KILLS; kill += 1) down.push(await due.killAt(new Date(from_ms + (kill * WITHIN_MS) / (KILLS + 1))));
  await due.untilHeld(0);
  await due.untilDispatched();
  const fired = await due.fired();
  checkOnce(fired, COUNT);
  const disturbed = ({ due_at }: Fired): boolean =>
    down.some(({ from, until }) => due_at.getTime() > from.getTime() - BEFORE_KILL_MS && due_at.getTime() < until.getTime() + CATCH_UP_MS);
  const [calm, after_kill] = [latenessOf(fired.filter((one) => !disturbed(one))), latenessOf(fired.filter(disturbed))];
  const [late, worst] = [p99(calm), after_kill.at(-1) ?? 0];
  t.diagnostic(`${calm.length} while it runs: p50 ${calm[calm.length >> 1]} ms, p99 ${late} ms, max ${calm.at(-1)} ms`);
  t.diagnostic(`${after_kill.length} around a kill: p50 ${after_kill[after_kill.length >> 1]} ms, max ${worst} ms`);
  const handed_over = latenessOf(fired, "dispatched_at");
  t.diagnostic(`handed to their robots: p50 ${handed_over[COUNT >> 1]} ms, p99 ${p99(handed_over)} ms, max ${handed_over.at(-1)} ms`);
  if (MEASURED) assert.ok(calm.length > COUNT / 10, "some came due in peace");
  if (MEASURED) assert.ok(late <= LATE_MS_P99 && worst <= LATE_MS_AFTER_KILL, `${late} ms, ${worst} ms`);
  provePromise(
    t,
    18,
    `${COUNT} deployments due within ${WITHIN_MS / 1_000} s (${by_api.length} made through the API, the rest by SQL), the server killed ${KILLS} times: ` +
      `each fired once and was dispatched once, 0 early; late at p99 ${late} ms while it runs, ${worst} ms at most around a kill; handed to its robot after ${p99(handed_over)} ms at p99`,
  );
});

test("what is scheduled fires once and not early by the server's clock, which jumps five minutes either way", LIMIT, async (t) => {
  const directory = mkdtempSync(path.join(tmpdir(), "robofleet-clock-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const file = path.join(directory, "offset");
  const jump = (offset_ms: number): void => writeFileSync(file, String(offset_ms));
  jump(0);
  await using due = await DueDeployments.start(JUMPED_COUNT, {
    SHIFTED_CLOCK_FILE: file,
    NODE_OPTIONS: `--import=${pathToFileURL(path.join(ROOT, "tests/processes/shifted-clock.ts")).href}`,
  });
  const half = JUMPED_COUNT / 2;
  const from_ms = Date.now() + 3_000;
  const moments = [...spread(from_ms, JUMPED_WITHIN_MS, half), ...spread(from_ms + FIVE_MINUTES_MS, JUMPED_WITHIN_MS, half)];
  await due.scheduleBySql(moments.slice(1));
  await due.schedule(moments.slice(0, 1));

  await due.untilHeld(JUMPED_COUNT - half / 4);
  jump(-FIVE_MINUTES_MS);
  // What it had begun when the clock was set may end.
  await sleep(500);
  const held = await due.held();
  await sleep(NOTHING_FIRES_MS);
  assert.equal(await due.held(), held, "it fired five minutes early");
  await due.killAt(new Date());
  assert.equal(await due.held(), held, "it fired five minutes early");
  // It sleeps until a time that is five minutes away.
  await sleep(IDLE_MS);
  const noticed: number[] = [];
  const noticedAfter = async (held_max: number): Promise<void> => {
    const jumped_at = performance.now();
    await due.untilHeld(held_max);
    noticed.push(Math.round(performance.now() - jumped_at));
  };
  jump(0);
  await noticedAfter(held - 1);
  // All of the first half are due at once, and the second half begins.
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
