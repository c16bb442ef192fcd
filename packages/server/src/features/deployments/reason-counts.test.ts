import assert from "node:assert/strict";
import { test } from "node:test";
import { isTerminal, REASONS, TARGET_STATUSES } from "@roamfleet/protocol";
import fc from "fast-check";
import { commonestReason, countReasons, type ReasonCounts } from "./reason-counts.ts";

const standing = fc.record({ status: fc.constantFrom(...TARGET_STATUSES), reason: fc.option(fc.constantFrom(...REASONS), { nil: null }) });

test("after any moves, the counts equal a group-by of the ended targets", () => {
  fc.assert(
    fc.property(fc.array(fc.array(standing, { minLength: 2, maxLength: 5 }), { maxLength: 20 }), (targets) => {
      let counts: ReasonCounts = {};
      for (const steps of targets)
        counts = countReasons(
          counts,
          steps
            .slice(1)
            .map(({ status: to, reason }, i) => ({ target: i === 0 ? { status: "queued", reason: null } : steps[i]!, to, reason })),
        );
      const expected: Record<string, Record<string, number>> = {};
      for (const { status, reason } of targets.map((steps) => steps.at(-1)!)) {
        if (!isTerminal(status)) continue;
        const own = (expected[status] ??= {});
        own[reason ?? ""] = (own[reason ?? ""] ?? 0) + 1;
      }
      const shown = Object.fromEntries(Object.entries(counts).filter(([, own]) => Object.keys(own).length > 0));
      assert.deepEqual(shown, expected);
    }),
  );
});

test("the most frequent reason wins, the first by name among equals; targets without a reason come last", () => {
  const counts: ReasonCounts = { failed: { timeout: 2, crash_loop: 1 }, rolled_back: { crash_loop: 1, "": 2 }, applied: { "": 9 } };
  assert.equal(commonestReason(counts, ["failed"]), "timeout");
  assert.equal(commonestReason(counts, ["failed", "rolled_back"]), "crash_loop");
  assert.equal(commonestReason(counts, ["rolled_back"]), null);
  assert.equal(commonestReason(counts, ["cancelled"]), null);
});
