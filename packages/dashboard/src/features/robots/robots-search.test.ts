import assert from "node:assert/strict";
import { test } from "node:test";
import { labelProblem, labelsText, readLabel, readLabels } from "./robot-text.ts";
import { readRobotsSearch } from "../../search.ts";
import { isFiltered, labelsOf, robotsCommand } from "./robots-search.ts";

test("the robots page reads valid URL parameters and ignores others", () => {
  const search = readRobotsSearch({
    status: "online",
    health: "splendid",
    q: 12,
    fleet_id: "",
    label: ["zone:a", 5, "b"],
    evil: "<script>",
  });
  assert.deepEqual(search, { status: "online", q: "12", label: "zone:a" });
});

test("the robots page keeps several label filters", () => {
  const search = readRobotsSearch({ label: ["zone:a", "line:2"] });
  assert.deepEqual(labelsOf(search), ["zone:a", "line:2"]);
  assert.deepEqual(readRobotsSearch(search as Record<string, unknown>), search);
});

test("the sort order of the robots page does not count as a filter", () => {
  assert.equal(isFiltered({ sort: "name" }), false);
  assert.equal(isFiltered({ q: "x" }), true);
});

test("quotes the filters of the robots page in the rf command", () => {
  assert.equal(robotsCommand({}), "rf robots list");
  assert.equal(robotsCommand({ status: "online" }), "rf api GET '/api/robots?status=online'");
  assert.equal(
    robotsCommand({ q: "'; reboot #", label: ["a:b", "c:d"] }),
    "rf api GET '/api/robots?q=%27%3B+reboot+%23&label=a%3Ab&label=c%3Ad'",
  );
});

test("parses robot labels with = and :", () => {
  assert.deepEqual(readLabel("zone = a"), ["zone", "a"]);
  assert.deepEqual(readLabel("zone:a=b"), ["zone", "a=b"]);
  assert.equal(readLabel("=a"), undefined);
  assert.equal(labelProblem("zone/floor-1", "x"), undefined);
  assert.match(labelProblem("-zone", "x") ?? "", /begins with/);
});

test("formats and parses lines of robot labels and reports the number of an invalid line", () => {
  const labels = { zone: "a", "line/no": "2=b" };
  assert.deepEqual(readLabels(labelsText(labels)), { labels });
  assert.match(readLabels("zone=a\n\nnonsense").problem ?? "", /^Line 3/);
});
