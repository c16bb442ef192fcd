import assert from "node:assert/strict";
import { test } from "node:test";
import type { MetricAnswer } from "@roamfleet/protocol/routes";
import { type ExplorerSearch, exactSearch, type Panel, PANELS_MAX, readExplorerSearch } from "../../search.ts";
import { chartOf, defaultName, isFixed, panelText, periodOf, queryOf, sortLines, styleOf } from "./explorer.ts";

const NOW = Date.parse("2030-01-01T08:00:01Z");
const spanOf = ({ since, until }: { since: string; until: string }): number => (Date.parse(until) - Date.parse(since)) / 1_000;

const answer = (groups: Partial<MetricAnswer["groups"][number]>[], rest: Partial<MetricAnswer> = {}): MetricAnswer => ({
  name: "cpu_percent",
  aggregation: "avg",
  since: "2030-01-01T00:00:00Z",
  until: "2030-01-01T00:03:00Z",
  counter: false,
  step_seconds: 60,
  groups: groups.map((group) => ({ id: "rob_1", name: "cart", labels: {}, robot_count: 1, values: [1, 2, 3], ...group })),
  omitted_groups: 0,
  ...rest,
});

test("a relative period ends after now and is the same within an interval", () => {
  for (const range of ["1h", "6h", "24h", "7d", "30d"] as const) {
    const period = periodOf({ range }, NOW);
    assert.deepEqual(periodOf({ range }, NOW + 5_000), period);
    assert.ok(Date.parse(period.until) >= NOW);
    assert.ok(period.points <= 360 && period.points * period.step_seconds === spanOf(period), range);
  }
});

test("a fixed period contains the chosen times and has at most 360 intervals", () => {
  const search = { from: "2030-01-01T07:00:03Z", to: "2030-01-01T07:08:00Z" };
  const period = periodOf(search, NOW);
  assert.deepEqual(period, { since: "2030-01-01T07:00:00.000Z", until: "2030-01-01T07:08:00.000Z", points: 48, step_seconds: 10 });
  const longest = periodOf({ from: "2029-01-01T00:00:00Z", to: "2030-01-01T07:08:00Z" }, NOW);
  assert.ok(longest.points <= 360 && spanOf(longest) <= 92 * 86_400, JSON.stringify(longest));
  for (const invalid of [{ from: search.to, to: search.from }, { from: search.from }] satisfies ExplorerSearch[]) {
    assert.equal(isFixed(invalid), false);
    assert.equal(spanOf(periodOf(invalid, NOW)), 3_600);
  }
});

test("groups become lines with their figures, and those without samples are left out", () => {
  const chart = chartOf(
    answer([{ labels: { mount: "/" } }, { id: "rob_2", values: [null, null, null] }, { id: "rob_3", name: "arm", values: [9, null, 5] }], {
      omitted_groups: 4,
    }),
    { group_by: "robot" },
  );
  assert.deepEqual(
    chart.lines.map(({ key, label, index, robot_id, figures }) => [key, label, index, robot_id, figures]),
    [
      ["rob_1 mount=/", "cart /", 0, "rob_1", { last: 3, mean: 2, min: 1, max: 3 }],
      ["rob_3", "arm", 2, "rob_3", { last: 5, mean: 7, min: 5, max: 9 }],
    ],
  );
  assert.deepEqual([chart.unit, chart.max, chart.group_count], ["%", 100, 7]);
  assert.equal(chart.times[0], Date.parse("2030-01-01T00:00:30Z") / 1_000);
  assert.deepEqual(
    sortLines(chart.lines, "name").map(({ label }) => label),
    ["arm", "cart /"],
  );
  assert.deepEqual(
    sortLines(chart.lines, "max").map(({ label }) => label),
    ["arm", "cart /"],
  );
});

test("a count is a number of robots, and a sum of percentages may exceed 100", () => {
  const count = chartOf(answer([{ id: null }], { name: "memory_used_bytes", aggregation: "count" }), {});
  assert.deepEqual([count.unit, count.lines[0]?.robot_id], ["robots", undefined]);
  assert.equal(chartOf(answer([{}], { aggregation: "sum" }), {}).max, undefined);
  const of = (panel: Panel): string | undefined => chartOf(answer([{ id: null, name: "all robots" }]), panel).lines[0]?.label;
  assert.deepEqual([of({}), of({ fleet_id: "fleet_1" })], ["all robots", "selected robots"]);
});

test("panels are described in words", () => {
  assert.equal(panelText({}, false), "average of all robots");
  assert.equal(panelText({ site_id: "site_1" }, false), "average of the selected robots");
  assert.equal(panelText({ aggregation: "sum", group_by: "label:zone" }, true), "sum by label zone, per second");
  assert.equal(panelText({ aggregation: "count", group_by: "site" }, true), "number of robots by site");
  assert.deepEqual([["b", "cpu_percent"], ["b", "c"], []].map(defaultName), ["cpu_percent", "b", ""]);
});

test("each of the first 30 lines has its own color and dash pattern", () => {
  const styles = new Set(Array.from({ length: 30 }, (_, index) => JSON.stringify(styleOf(index))));
  assert.equal(styles.size, 30);
});

test("the query of a panel has only what is chosen", () => {
  const period = periodOf({}, NOW);
  const { since, until, points } = period;
  const panel = { robot_id: ["rob_1", "rob_2"], group_by: "robot", only: "rob_1", sort: "max" } as const;
  assert.deepEqual(queryOf({ ...panel, robot_id: [...panel.robot_id] }, "cpu_percent", period), {
    name: "cpu_percent",
    robot_id: ["rob_1", "rob_2"],
    group_by: "robot",
    since,
    until,
    points,
  });
});

test("invalid parts of a link are ignored", () => {
  const read = (search: Record<string, unknown>): ExplorerSearch =>
    JSON.parse(JSON.stringify(exactSearch(readExplorerSearch)(search))) as never;
  const panel = {
    name: "cpu_percent",
    site_id: "",
    robot_id: ["rob_1", 7, ""],
    label: "zone",
    group_by: "owner",
    aggregation: "p99",
    sort: "sum",
    x: 1,
  };
  assert.deepEqual(read({ panels: [panel, "x", null, {}], range: "2h", from: "yesterday" }), {
    panels: [{ name: "cpu_percent", robot_id: ["rob_1", "7"] }, {}],
  });
  assert.deepEqual(read({ panels: "cpu" }), {});
  assert.equal(read({ panels: Array.from({ length: 20 }, () => ({})) }).panels?.length, PANELS_MAX);
});
