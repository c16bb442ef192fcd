import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionSync } from "./connection-sync.ts";
import { countsSince, type Origin, retryChain } from "./fleet-desired.ts";

const at = (seconds: number): Date => new Date(seconds * 1_000);

test("an added robot wakes the reconciler, but a robot that is put back for a retry does not", () => {
  const connections = new ConnectionSync();
  let woken = 0;
  connections.on_add = () => (woken += 1);
  for (const id of ["rob_1", "rob_2", "rob_1"]) connections.add("org_a", id);
  connections.add("org_b", "rob_3");
  assert.equal(woken, 4);
  assert.deepEqual(connections.take(1, at(0)), [
    { org_id: "org_a", robot_ids: ["rob_1"] },
    { org_id: "org_b", robot_ids: ["rob_3"] },
  ]);
  connections.putBack("org_a", ["rob_1"], at(4));
  assert.equal(woken, 4);
  assert.equal(connections.hasReady(at(3)), false);
  assert.deepEqual(connections.take(10, at(3)), []);
  connections.add("org_b", "rob_4");
  assert.deepEqual(connections.take(10, at(3)), [{ org_id: "org_b", robot_ids: ["rob_4"] }], "other orgs are not delayed");
  assert.equal(connections.hasReady(at(4)), true);
  assert.deepEqual(connections.take(10, at(4)), [{ org_id: "org_a", robot_ids: ["rob_2", "rob_1"] }]);
  assert.deepEqual(connections.take(10, at(5)), []);
});

const origin = (id: string, order_number: number, of: Partial<Pick<Origin, "retry_of" | "rollback_of">> = {}): [string, Origin] => [
  id,
  { id, retry_of: null, rollback_of: null, order_number, ...of },
];
const origins = new Map([
  origin("first", 1),
  origin("second", 2),
  origin("back", 3, { rollback_of: "first" }),
  origin("again", 4, { retry_of: "back" }),
  origin("and_again", 5, { retry_of: "again" }),
]);

test("a retry or rollback takes the order number of its original deployment", () => {
  const numbers = [...origins.keys()].map((id) => countsSince(origins, id));
  assert.deepEqual(numbers, [1, 2, 1, 1, 1]);
  assert.equal(countsSince(origins, "unknown"), null);
});

test("the chain of a retry includes all deployments that it retries, and that of a rollback only the rollback", () => {
  assert.deepEqual(retryChain(origins, "and_again"), ["and_again", "again", "back"]);
  assert.deepEqual(retryChain(origins, "back"), ["back"]);
});
