import assert from "node:assert/strict";
import { test } from "node:test";
import { pendingFleets } from "./pending.ts";

const at = (minute: number): string => `2030-01-01T00:${String(minute).padStart(2, "0")}:00.000Z`;
const FLEETS = [
  { id: "a", site_id: "one", robot_count: 2 },
  { id: "b", site_id: "two", robot_count: 1 },
  { id: "empty", site_id: "one", robot_count: 0 },
];
const entry = (scope: "org" | "site" | "fleet" | "robot", scope_id: string | null, removed_at: string | null = null) => ({
  namespace: "nav",
  scope,
  scope_id,
  updated_at: at(10),
  removed_at,
});
const deployed = (fleet_id: string, minute: number, status: "applied" | "failed" = "applied", namespace: string | null = null) => ({
  fleet_id,
  namespace,
  status,
  created_at: at(minute),
  counts: { applied: status === "applied" ? 2 : 0, cancelled: 0 },
});
const ids = (fleets: readonly { id: string }[]): string[] => fleets.map(({ id }) => id);

test("a change is pending in each fleet of its scope without a config deployment since", () => {
  assert.deepEqual(ids(pendingFleets(entry("org", null), FLEETS, [], 0)), ["a", "b"]);
  assert.deepEqual(ids(pendingFleets(entry("org", null), FLEETS, [deployed("a", 11), deployed("b", 9)], 0)), ["b"]);
  assert.deepEqual(ids(pendingFleets(entry("site", "one"), FLEETS, [], 0)), ["a"]);
  assert.deepEqual(ids(pendingFleets(entry("fleet", "b"), FLEETS, [], 0)), ["b"]);
  assert.deepEqual(pendingFleets(entry("robot", "r"), FLEETS, [], 0), []);
});

test("ignores failed deployments and other namespaces, and counts removals as changes", () => {
  const others = [deployed("b", 11, "failed"), deployed("b", 12, "applied", "other")];
  assert.deepEqual(ids(pendingFleets(entry("fleet", "b"), FLEETS, others, 0)), ["b"]);
  assert.deepEqual(pendingFleets(entry("fleet", "b"), FLEETS, [deployed("b", 11, "applied", "nav")], 0), []);
  assert.deepEqual(ids(pendingFleets(entry("fleet", "b", at(20)), FLEETS, [deployed("b", 11)], 0)), ["b"]);
});

test("a deployment that failed on single robots counts as deployed, one that skipped robots does not", () => {
  const failed = deployed("b", 11, "failed");
  assert.deepEqual(pendingFleets(entry("fleet", "b"), FLEETS, [{ ...failed, counts: { applied: 99, cancelled: 0 } }], 0), []);
  const skipping = { ...failed, counts: { applied: 50, cancelled: 49 } };
  assert.deepEqual(ids(pendingFleets(entry("fleet", "b"), FLEETS, [skipping], 0)), ["b"]);
});

test("does not report changes that are older than the oldest loaded deployment", () => {
  assert.deepEqual(pendingFleets(entry("fleet", "b"), FLEETS, [], Date.parse(at(11))), []);
});
