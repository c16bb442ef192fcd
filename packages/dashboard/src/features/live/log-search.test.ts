import assert from "node:assert/strict";
import { test } from "node:test";
import { filterOf, logCommand, readLogSearch, timeOf } from "./log-search.ts";

const NOW = Date.parse("2030-01-01T12:00:00Z");

test("ignores invalid URL parameters", () => {
  assert.deepEqual(readLogSearch({ level: "loud", source: "", q: 404, since: "soon", until: "2030-01-01", wrap: true }), {
    q: "404",
    until: "2030-01-01",
    wrap: true,
  });
  assert.deepEqual(readLogSearch({ q: "x".repeat(201) }), {});
});

test("converts a duration to a time before now", () => {
  assert.equal(timeOf("2h", NOW), "2030-01-01T10:00:00.000Z");
  assert.equal(timeOf("2030-01-01T08:00:00+01:00", NOW), "2030-01-01T07:00:00.000Z");
  assert.equal(timeOf("2w", NOW), undefined);
  assert.deepEqual(filterOf({ since: "10m", level: "warn", wrap: true }, NOW), { level: "warn", since: "2030-01-01T11:50:00.000Z" });
});

test("the command has the same filters, quoted, and follows without an end time", () => {
  assert.equal(
    logCommand("robots", "rob_1", { level: "warn", q: "it's $HOME" }),
    "rf robots logs rob_1 --level warn --grep 'it'\\''s $HOME' --follow",
  );
  assert.equal(logCommand("fleets", "fleet_1", { since: "2h", until: "1h" }), "rf fleets logs fleet_1 --since 2h --until 1h");
});
