import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { LABEL_VALUE_BYTES_MAX, LABELS_PER_SERIES_MAX, METRIC_NAME_BYTES_MAX, SAMPLES_PER_CHUNK_MAX } from "@roamfleet/protocol/link";
import { collectSamples, droppedBy } from "../testing/collected-samples.ts";
import { LINE_CHARACTERS_MAX } from "./exposition.ts";
import { DROP_REASONS } from "./sample-source.ts";
import { EXPOSITION_BYTES_MAX, OVERSIZE_PAUSE_MS, SCRAPE_TIMEOUT_MS } from "./scraper.ts";
import { SERIES_MAX, SOURCE_SERIES_MAX, SPACING_MS_MIN } from "./sample-collector.ts";

const guide = readFileSync(join(import.meta.dirname, "../../../../docs/guide/app-metrics.md"), "utf8");
const START = "2030-01-01T00:00:00Z";

function start(labels: Record<string, string> = {}) {
  const clock = new SimulatedClock({ at: START });
  const collected = collectSamples(clock);
  const source = collected.source("test", labels);
  const take = (name: string, more: { labels?: Record<string, string>; value?: number; time?: number } = {}) =>
    source.take({ name, labels: {}, value: 1, ...more }, clock.monotonic());
  return { ...collected, clock, source, take, dropped: () => droppedBy(source) };
}

test("adds the labels of the source, renames equal ones, and leaves out labels without a value", () => {
  const { take, taken } = start({ app: "main" });
  take("a", { labels: { app: "other", empty: "", mode: "x" } });
  assert.deepEqual(taken()[0]?.labels, { app: "main", exported_app: "other", mode: "x" });
});

test("counts the dropped samples by reason, and logs each reason only the first time", () => {
  const { take, taken, dropped, lines } = start({ app: "main" });
  const nine = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`label_${i}`, "x"]));
  for (let round = 0; round < 3; round += 1) {
    for (const name of ["bad.name", "9a", "a:b", "__name__", "ü", "", "x".repeat(129)]) assert.equal(take(name), "name", name);
    assert.equal(take("a", { labels: { "bad-label": "x" } }), "name");
    assert.equal(take("a", { labels: { __proto: "x" } }), "name");
    assert.equal(take("a", { labels: { long: "ü".repeat(65) } }), "label");
    assert.equal(take("a", { labels: nine }), "label");
    for (const value of [NaN, Infinity, -Infinity]) assert.equal(take("a", { value }), "value");
  }
  assert.deepEqual(dropped(), { name: 27, label: 6, value: 9 });
  assert.deepEqual(taken(), []);
  assert.equal(lines.length, 3);
  assert.match(lines[0] ?? "", /"reason":"name".*must match/);
});

test("takes times of the robot's clock of up to 5 minutes ago, and no others", async () => {
  const { take, taken, clock, dropped } = start();
  await clock.advance({ minutes: 10 });
  const now = clock.now().getTime();
  for (const time of [now - 300_001, now + 1_001, 0, -1e18, 1e300]) assert.equal(take("a", { time }), "time");
  for (const time of [now - 300_000, now - 150_000, now + 1_000]) assert.equal(take("a", { time }), undefined);
  assert.equal(take("a", { time: now - 200_000 }), "time", "before the last sample");
  assert.deepEqual(dropped(), { time: 6 });
  assert.deepEqual(taken()[0]?.times, [now - 300_000, now - 150_000, now + 1_000]);
});

test("drops a second sample of a series at the same time, also after a flush", async () => {
  const { take, taken, clock, dropped } = start();
  assert.equal(take("a", { labels: { x: "1", y: "2" } }), undefined);
  assert.equal(take("a", { labels: { y: "2", x: "1" } }), "duplicate");
  assert.equal(taken().length, 1);
  await clock.advance({ milliseconds: SPACING_MS_MIN - 1 });
  assert.equal(take("a", { labels: { x: "1", y: "2" } }), "duplicate");
  await clock.advance({ milliseconds: 1 });
  assert.equal(take("a", { labels: { x: "1", y: "2" } }), undefined);
  assert.deepEqual(dropped(), { duplicate: 2 });
  assert.equal(taken()[0]?.values.length, 1);
});

test("drops samples of a series that another source has", async () => {
  const { take, source, clock, collector, taken } = start();
  collector.addOwn({ name: "cpu_percent", labels: {}, value: 7 }, clock.monotonic());
  take("a");
  await clock.advance({ seconds: 10 });
  assert.equal(take("cpu_percent"), "duplicate");
  assert.equal(collector.add({ name: "a", labels: {}, value: 2 }, clock.monotonic(), "other"), "duplicate");
  assert.deepEqual(droppedBy(source), { duplicate: 1 });
  assert.deepEqual(
    taken().map(({ name, values }) => [name, values]),
    [
      ["cpu_percent", [7]],
      ["a", [1]],
    ],
  );
});

test("bounds the series of each source and of all, and keeps room for the robot's own values", () => {
  const { collector, clock, taken } = start();
  let added = 0;
  for (const source of ["a", "b", "c"])
    for (let i = 0; i < 100_000; i += 1)
      if (collector.add({ name: "x", labels: { source, id: String(i) }, value: i }, clock.monotonic(), source) === undefined) added += 1;
  for (let i = 0; i < SERIES_MAX; i += 1) collector.addOwn({ name: `own_${i}`, labels: {}, value: i }, clock.monotonic());
  assert.equal(added, SOURCE_SERIES_MAX.all);
  const series = taken();
  assert.equal(series.length, SERIES_MAX);
  assert.equal(series.filter(({ labels }) => labels["source"] === "a").length, SOURCE_SERIES_MAX.each);
  assert.equal(series.filter(({ name }) => name.startsWith("own_")).length, SERIES_MAX - SOURCE_SERIES_MAX.all);
});

test("frees the series of a source that have had no samples for a flush interval", () => {
  const { take, taken, dropped } = start();
  const name = (i: number): string => `a_${i}`;
  for (let i = 0; i <= SOURCE_SERIES_MAX.each; i += 1) take(name(i));
  assert.deepEqual(dropped(), { series: 1 });
  taken();
  assert.equal(take("b"), "series");
  taken();
  assert.equal(take("b"), undefined);
});

test("flushes early when the samples fill a chunk, so that a fast source needs no more memory", async () => {
  const { take, taken, clock, chunks } = start();
  const samples = (): number => chunks.flat().reduce((sum, { values }) => sum + values.length, 0);
  let sent = 0;
  while (sent < SAMPLES_PER_CHUNK_MAX - 1) {
    await clock.advance({ milliseconds: SPACING_MS_MIN });
    for (let i = 0; i < SOURCE_SERIES_MAX.each - 1 && sent < SAMPLES_PER_CHUNK_MAX - 1; i += 1, sent += 1) take(`a_${i}`);
  }
  assert.equal(samples(), 0);
  take("last");
  assert.equal(samples(), SAMPLES_PER_CHUNK_MAX);
  assert.equal(taken().length, SOURCE_SERIES_MAX.each);
});

test("app-metrics.md lists each reason, and the bounds that the agent enforces", () => {
  assert.deepEqual(
    Array.from(guide.matchAll(/^\| `([a-z]+)` \| [a-z0-9]/gm), ([, reason]) => reason).filter(
      (one) => one !== undefined && one in DROP_REASONS,
    ),
    Object.keys(DROP_REASONS),
  );
  for (const text of [
    `at most ${LINE_CHARACTERS_MAX.toLocaleString("en")} characters`,
    `have at most ${METRIC_NAME_BYTES_MAX} characters`,
    `${LABELS_PER_SERIES_MAX} labels in a series`,
    `${LABEL_VALUE_BYTES_MAX} bytes in a label's value`,
    `one sample of a series in ${SPACING_MS_MIN / 1_000} s`,
    `${SOURCE_SERIES_MAX.each} series of one source, ${SOURCE_SERIES_MAX.all} of all sources`,
    `${EXPOSITION_BYTES_MAX / 1024 / 1024} MiB in a response`,
    `follows after ${OVERSIZE_PAUSE_MS / 60_000} minutes`,
    `A request ends after ${SCRAPE_TIMEOUT_MS / 1_000} s`,
  ])
    assert.ok(guide.includes(text), text);
});
