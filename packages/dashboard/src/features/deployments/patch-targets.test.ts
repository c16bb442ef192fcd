import assert from "node:assert/strict";
import { test } from "node:test";
import { latestStatuses, patchPages, type TargetRow } from "./patch-targets.ts";

const row = (robot_id: string, status: string): TargetRow => ({
  robot_id,
  status,
  reason: null,
  waiting_for: "slot",
  progress: { bytes_done: 1, bytes_total: 2 },
});

test("uses the last status of each robot of the deployment", () => {
  const change = { kind: "target", id: "t", change: "status", deployment_id: "dep_1" } as const;
  const latest = latestStatuses(
    [
      { ...change, robot_id: "rob_1", status: "dispatched" },
      { ...change, robot_id: "rob_1", status: "applied" },
      { ...change, robot_id: "rob_2", status: "failed", deployment_id: "dep_2" },
      { ...change, kind: "deployment", status: "applied" },
    ],
    "dep_1",
  );
  assert.deepEqual([...latest], [["rob_1", "applied"]]);
});

test("replaces only changed rows and clears fields that the new status invalidates", () => {
  const pages = [{ items: [row("rob_1", "queued"), row("rob_2", "queued")] }, { items: [row("rob_3", "queued")] }];
  const [first, second] = patchPages(pages, new Map([["rob_1", "downloading"]]));
  assert.deepEqual(first?.items[0], { ...row("rob_1", "downloading"), waiting_for: null });
  assert.equal(first?.items[1], pages[0]?.items[1]);
  assert.equal(second, pages[1]);
});

test("clears the progress of a finished robot and ignores repeated statuses", () => {
  const pages = [{ items: [row("rob_1", "downloading")] }];
  assert.equal(patchPages(pages, new Map([["rob_1", "applied"]]))[0]?.items[0]?.progress, null);
  assert.equal(patchPages(pages, new Map([["rob_1", "downloading"]]))[0], pages[0]);
});
