import assert from "node:assert/strict";
import { test } from "node:test";
import { type Holder, ReceiveBudget } from "./receive-budget.ts";

test("closes the largest link of the org that uses most memory when the limit is exceeded", () => {
  const budget = new ReceiveBudget(100);
  const evicted: string[] = [];
  const holder = (name: string, org_id: string): Holder => ({ org_id, evict: () => evicted.push(name) });
  const [large, small, alone] = [holder("large", "org_1"), holder("small", "org_1"), holder("alone", "org_2")];
  budget.change(large, 40);
  budget.change(small, 20);
  budget.change(alone, 40);
  assert.deepEqual([budget.bytes, evicted], [100, []]);
  budget.change(alone, 5);
  assert.deepEqual([budget.bytes, evicted], [65, ["large"]]);
  // The channels of the closed link end later, and release bytes that are no longer counted.
  budget.change(large, -40);
  assert.equal(budget.bytes, 65);
  budget.forget(alone);
  budget.change(small, -20);
  assert.equal(budget.bytes, 0);
});
