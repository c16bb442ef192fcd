import assert from "node:assert/strict";
import { test } from "node:test";
import { Arrivals } from "./arrivals.ts";

const at = (seconds: number): Date => new Date(seconds * 1_000);

test("an added robot wakes the loop; robots that are put back do not, and their org is skipped for a while", () => {
  const arrivals = new Arrivals();
  let woken = 0;
  arrivals.on_arrival = () => (woken += 1);
  for (const id of ["rob_1", "rob_2", "rob_1"]) arrivals.add("org_a", id);
  arrivals.add("org_b", "rob_3");
  assert.equal(woken, 4);
  assert.deepEqual(arrivals.take(1, at(0)), [
    { org_id: "org_a", robot_ids: ["rob_1"] },
    { org_id: "org_b", robot_ids: ["rob_3"] },
  ]);
  arrivals.putBack("org_a", ["rob_1"], at(4));
  assert.equal(woken, 4);
  assert.equal(arrivals.hasReady(at(3)), false);
  assert.deepEqual(arrivals.take(10, at(3)), []);
  arrivals.add("org_b", "rob_4");
  assert.deepEqual(arrivals.take(10, at(3)), [{ org_id: "org_b", robot_ids: ["rob_4"] }], "other orgs are not delayed");
  assert.equal(arrivals.hasReady(at(4)), true);
  assert.deepEqual(arrivals.take(10, at(4)), [{ org_id: "org_a", robot_ids: ["rob_2", "rob_1"] }]);
  assert.deepEqual(arrivals.take(10, at(5)), []);
});
