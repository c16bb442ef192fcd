import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConfigEntry } from "@roamfleet/protocol/routes";
import {
  deployLine,
  effectiveOf,
  filterValues,
  pendingFleets,
  rollbackLine,
  setLine,
  unsetLine,
  valueLine,
  wrongLine,
} from "./config-values.ts";

const entry = (scope: ConfigEntry["scope"], key: string, value: unknown, namespace = "default"): ConfigEntry =>
  ({
    id: `cfg_${scope}_${key}`,
    key,
    value,
    secret: false,
    namespace,
    scope,
    scope_id: scope === "org" ? null : scope,
    version: 1,
  }) as ConfigEntry;

test("the narrowest scope sets the effective config value of each key", () => {
  const values = effectiveOf([
    [entry("org", "speed", 1), entry("org", "name", "a"), entry("org", "speed", 9, "nav")],
    [entry("site", "speed", 2)],
    [entry("fleet", "speed", null), entry("fleet", "zone", [1])],
  ]);
  assert.deepEqual(
    values.map(({ namespace, key, value, scope }) => [namespace, key, value, scope]),
    [
      ["default", "name", "a", "org"],
      ["default", "speed", null, "fleet"],
      ["default", "zone", [1], "fleet"],
      ["nav", "speed", 9, "org"],
    ],
  );
});

test("treats config keys such as __proto__ as ordinary keys", () => {
  assert.deepEqual(
    effectiveOf([[entry("org", "__proto__", 1), entry("org", "constructor", 2)]]).map(({ key, value }) => [key, value]),
    [
      ["__proto__", 1],
      ["constructor", 2],
    ],
  );
});

test("searches config values by key or content, and secrets by key only", () => {
  const values = effectiveOf([[entry("org", "mode", "Indoor"), { ...entry("org", "password", null), secret: true }]]);
  assert.deepEqual(
    filterValues(values, { q: "INDOOR" }).map(({ key }) => key),
    ["mode"],
  );
  assert.deepEqual(filterValues(values, { q: "null" }), []);
  assert.deepEqual(filterValues(values, { namespace: "nav" }), []);
  assert.equal(valueLine(values[1]!), "(secret)");
});

const at = (minute: number): string => `2030-01-01T00:${String(minute).padStart(2, "0")}:00.000Z`;
const FLEETS = [
  { id: "a", site_id: "one", robot_count: 2 },
  { id: "b", site_id: "two", robot_count: 1 },
  { id: "empty", site_id: "one", robot_count: 0 },
];
const changed = (scope: "org" | "site" | "fleet" | "robot", scope_id: string | null, removed_at: string | null = null) => ({
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

test("a config change stays pending in each fleet that has had no config deployment since the change", () => {
  assert.deepEqual(ids(pendingFleets(changed("org", null), FLEETS, [], 0)), ["a", "b"]);
  assert.deepEqual(ids(pendingFleets(changed("org", null), FLEETS, [deployed("a", 11), deployed("b", 9)], 0)), ["b"]);
  assert.deepEqual(ids(pendingFleets(changed("site", "one"), FLEETS, [], 0)), ["a"]);
  assert.deepEqual(ids(pendingFleets(changed("fleet", "b"), FLEETS, [], 0)), ["b"]);
  assert.deepEqual(pendingFleets(changed("robot", "r"), FLEETS, [], 0), []);
});

test("a failed deployment or another namespace's deployment leaves a config change pending", () => {
  const others = [deployed("b", 11, "failed"), deployed("b", 12, "applied", "other")];
  assert.deepEqual(ids(pendingFleets(changed("fleet", "b"), FLEETS, others, 0)), ["b"]);
  assert.deepEqual(pendingFleets(changed("fleet", "b"), FLEETS, [deployed("b", 11, "applied", "nav")], 0), []);
  assert.deepEqual(ids(pendingFleets(changed("fleet", "b", at(20)), FLEETS, [deployed("b", 11)], 0)), ["b"]);
});

test("a config change stays pending after a deployment that skipped robots", () => {
  const failed = deployed("b", 11, "failed");
  assert.deepEqual(pendingFleets(changed("fleet", "b"), FLEETS, [{ ...failed, counts: { applied: 99, cancelled: 0 } }], 0), []);
  const skipping = { ...failed, counts: { applied: 50, cancelled: 49 } };
  assert.deepEqual(ids(pendingFleets(changed("fleet", "b"), FLEETS, [skipping], 0)), ["b"]);
});

test("a config change older than the oldest loaded deployment is not shown as pending", () => {
  assert.deepEqual(pendingFleets(changed("fleet", "b"), FLEETS, [], Date.parse(at(11))), []);
});

const value = { limits: { "max.speed": 5, zones: [{ name: "a" }, { name: 7 }] } };

test("finds the line of the JSON value that a schema error names", () => {
  assert.equal(wrongLine(value, "drive", "value drive.limits.max.speed must be <= 3 (schema of namespace nav)"), 3);
  assert.equal(wrongLine(value, "drive", "value drive.limits.zones.1.name must be string (schema of namespace nav)"), 9);
  assert.equal(wrongLine({ extra: 1 }, "drive", "value drive.extra is not in the schema (schema of namespace nav)"), 2);
});

test("returns no line for a schema error about the whole value or an unknown part", () => {
  for (const message of ["value drive must be object (schema of namespace nav)", "value drive.other must be string (x)", "no access"])
    assert.equal(wrongLine(value, "drive", message), undefined);
  assert.equal(wrongLine(5, "speed", "value speed must be <= 3 (schema of namespace nav)"), undefined);
});

const org = { namespace: "default", key: "speed", scope: "org", scope_id: null } as const;
const robot = { namespace: "nav", key: "max speed", scope: "robot", scope_id: "rob_1" } as const;

test("returns the rf commands for the actions of the configs page", () => {
  assert.equal(setLine(org, "1.5", false), "rf configs set speed 1.5");
  assert.equal(setLine(robot, '"a b"', false), `rf configs set 'max speed' '"a b"' --namespace nav --robot rob_1 --no-deploy`);
  assert.equal(setLine(org, "-3", false), "rf configs set speed -- -3");
  assert.equal(setLine(org, "x".repeat(201), false), "rf configs set speed --from-file value.json");
  assert.equal(unsetLine(robot), "rf configs unset 'max speed' --namespace nav --robot rob_1");
  assert.equal(rollbackLine(org, 3), "rf configs rollback speed --to 3");
  assert.equal(deployLine({ scope: "fleet", scope_id: "fleet_1" }, "nav"), "rf configs deploy --fleet fleet_1 --namespace nav --watch");
  assert.equal(deployLine({ scope: "site", scope_id: "site_1" }), "rf configs deploy --site site_1 --watch");
});

test("the rf command for a secret config value does not contain the secret", () => {
  assert.equal(setLine(org, '"hunter2"', true), "rf configs set speed --secret");
});
