import assert from "node:assert/strict";
import { test } from "node:test";
import { paths } from "@roamfleet/protocol/paths";
import { type Change, CHANGE_KINDS } from "@roamfleet/protocol/routes";
import { keysOf } from "./stale.ts";

const ids = { robot_id: "rob_1", fleet_id: "flt_1", site_id: "site_1", deployment_id: "dep_1" };

test("every kind of change invalidates queries of existing routes", () => {
  for (const kind of CHANGE_KINDS) {
    for (const change of ["created", "updated", "removed", "moved", "presence", "health", "status", "targets"]) {
      const keys = keysOf({ kind, id: "id_1", change, ...ids });
      assert.ok(keys.length > 0, kind);
      for (const [name] of keys) assert.equal(paths[name][0], "GET", `${kind}: ${name}`);
    }
  }
});

test("a change without related IDs produces no query key with a missing ID", () => {
  for (const kind of CHANGE_KINDS) assert.ok(!JSON.stringify(keysOf({ kind, id: "id_1", change: "updated" })).includes("{}"), kind);
});

test("a summary of changes invalidates every query that a single change could invalidate", () => {
  const prefixOf = (key: readonly unknown[], of: readonly unknown[]): boolean =>
    key.every((part, i) => JSON.stringify(part) === JSON.stringify(of[i]));
  for (const kind of CHANGE_KINDS) {
    const summary = keysOf({ kind, count: 2 });
    for (const change of ["created", "updated", "removed", "moved", "presence", "health", "status", "targets"])
      for (const key of keysOf({ kind, id: "id_1", change, ...ids, from_fleet_id: "flt_0", from_site_id: "site_0" }))
        assert.ok(
          summary.some((one) => prefixOf(one, key)),
          `${kind} ${change}: ${JSON.stringify(key)}`,
        );
    assert.ok(!JSON.stringify(summary).includes("*"), kind);
  }
  const targets = JSON.stringify(keysOf({ kind: "target", change: "status", deployment_id: "dep_1", count: 2 }));
  assert.ok(targets.includes(`["listDeploymentTargets",{"params":{"id":"dep_1"}}]`) && targets.includes(`["getRobot"]`), targets);
});

test("ignores change events of an unknown kind", () => {
  for (const kind of ["weather", "constructor", "__proto__", "toString"])
    assert.deepEqual(keysOf({ kind, id: "x", change: "updated" } as unknown as Change), []);
});

test("moving a robot invalidates the queries of its old and new fleet and site", () => {
  const text = JSON.stringify(
    keysOf({ kind: "robot", id: "rob_1", change: "moved", ...ids, from_fleet_id: "flt_0", from_site_id: "site_0" }),
  );
  for (const id of ["flt_0", "flt_1", "site_0", "site_1"]) assert.ok(text.includes(id), id);
});
