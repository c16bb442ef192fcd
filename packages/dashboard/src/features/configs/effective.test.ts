import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConfigEntry } from "@roamfleet/protocol/routes";
import { effectiveOf, filterValues, valueLine } from "./effective.ts";

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

test("the narrowest scope wins per key, and the origin is returned", () => {
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

test("treats names such as __proto__ as ordinary keys", () => {
  assert.deepEqual(
    effectiveOf([[entry("org", "__proto__", 1), entry("org", "constructor", 2)]]).map(({ key, value }) => [key, value]),
    [
      ["__proto__", 1],
      ["constructor", 2],
    ],
  );
});

test("finds values by key or content, and secrets by key only", () => {
  const values = effectiveOf([[entry("org", "mode", "Indoor"), { ...entry("org", "password", null), secret: true }]]);
  assert.deepEqual(
    filterValues(values, { q: "INDOOR" }).map(({ key }) => key),
    ["mode"],
  );
  assert.deepEqual(filterValues(values, { q: "null" }), []);
  assert.deepEqual(filterValues(values, { namespace: "nav" }), []);
  assert.equal(valueLine(values[1]!), "(secret)");
});
