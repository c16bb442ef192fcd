import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReportedStatus } from "@roamfleet/protocol/link";
import { describeFleet } from "./progress.ts";
import { Tally } from "./tally.ts";

test("counts reports repeated after a reconnect once, and summarizes the robots' states", () => {
  const tally = new Tally();
  const report = (number: number, status: ReportedStatus): void =>
    tally.reported(number, { kind: "target", deployment_id: "dep_1", target_id: `tgt_${number}`, attempt: 1, status });
  tally.enrolled = 3;
  for (const status of ["downloading", "downloading", "staged", "installing", "verifying", "applied", "applied"] as const)
    report(1, status);
  for (const status of ["downloading", "verifying", "rolling_back", "rolled_back"] as const) report(2, status);
  report(3, "downloading");
  tally.runs(1, "main", "1.1");
  tally.runs(2, "main", "1.0");
  tally.runs(3, "main", "1.0");
  assert.deepEqual(tally.ended, { applied: 1, rolled_back: 1, failed: 0, cancelled: 0 });
  assert.equal(
    describeFleet(3, 2, tally),
    "3 robots: 3 enrolled, 2 connected · 1 downloading · ended: 1 applied, 1 rolled back · running: 2 × 1.0, 1 × 1.1",
  );
});
