import assert from "node:assert/strict";
import { test } from "node:test";
import { isTerminal, type Reason, REASONS, TARGET_STATUSES, type TargetStatus, TERMINAL_STATUSES } from "@roamfleet/protocol";
import { type ReportedStatus, TARGET_STATUSES_REPORTED } from "@roamfleet/protocol/link/messages";
import fc from "fast-check";
import {
  ACTIVE_STATUSES,
  afterReport,
  afterTimeout,
  allEnded,
  ATTEMPTS_MAX,
  commonestReason,
  counterOf,
  countReasons,
  type Counts,
  endOf,
  isActive,
  isAwaited,
  isCommitted,
  isOver,
  isRevocable,
  REVOCABLE_STATUSES,
  type TargetState,
  type Task,
  taskOf,
  type Verdict,
} from "./state.ts";
import type { ReasonCounts } from "./store/rows.ts";

const ON_TIME = { cancel_requested: false };
const CANCELLED = { cancel_requested: true };
const report = (status: ReportedStatus, reason: Reason | null = null, attempt = 1) => ({ status, reason, attempt });

const status = fc.constantFrom(...TARGET_STATUSES);
const reported = fc.record({
  status: fc.constantFrom(...TARGET_STATUSES_REPORTED),
  attempt: fc.nat({ max: ATTEMPTS_MAX + 1 }),
  reason: fc.option(fc.constantFrom(...REASONS), { nil: null }),
});
const context = fc.record({ cancel_requested: fc.boolean(), online: fc.boolean() });

const REPORTS: [from: TargetStatus, received: ReportedStatus, reason: Reason | null, attempt: number, verdict: Verdict][] = [];
function row(from: TargetStatus, received: ReturnType<typeof report>, verdict: Verdict): void {
  REPORTS.push([from, received.status, received.reason, received.attempt, verdict]);
}
row("dispatched", report("downloading"), { to: "downloading", reason: null });
row("dispatched", report("applied"), { to: "applied", reason: null });
row("dispatched", report("applied", "already_installed"), { to: "applied", reason: "already_installed" });
row("dispatched", report("failed", "incompatible"), { to: "failed", reason: "incompatible" });
row("dispatched", report("failed", "download_failed"), { to: "queued", reason: "download_failed" });
row("downloading", report("failed", "timeout"), { to: "queued", reason: "timeout" });
row("downloading", report("failed", "digest_mismatch"), { to: "failed", reason: "digest_mismatch" });
row("downloading", report("staged"), { to: "staged", reason: null });
row("staged", report("installing"), { to: "installing", reason: null });
row("installing", report("failed", "timeout"), { to: "failed", reason: "timeout" });
row("verifying", report("rolling_back", "crash_loop"), { to: "rolling_back", reason: "crash_loop" });
row("verifying", report("applied"), { to: "applied", reason: null });
row("rolling_back", report("rolled_back", "crash_loop"), { to: "rolled_back", reason: "crash_loop" });
row("rolling_back", report("failed", "rollback_failed"), { to: "failed", reason: "rollback_failed" });
row("staged", report("downloading"), { ignored: "backwards" });
row("verifying", report("verifying"), { ignored: "backwards" });
row("rolling_back", report("verifying"), { ignored: "backwards" });
row("downloading", report("staged", null, 2), { ignored: "stale_attempt" });
row("downloading", report("staged", null, 0), { ignored: "stale_attempt" });
row("queued", report("downloading"), { ignored: "stale_attempt" });
row("pending", report("applied"), { ignored: "stale_attempt" });
row("applied", report("failed"), { ignored: "ended" });
row("installing", report("cancelled"), { ignored: "too_late_to_cancel" });

for (const [from, received, reason, attempt, verdict] of REPORTS) {
  const outcome = "ignored" in verdict ? `is ignored: ${verdict.ignored}` : `makes the target ${verdict.to}`;
  test(`${from} target: the report ${received}${reason === null ? "" : ` (${reason})`} of attempt ${attempt} ${outcome}`, () => {
    assert.deepEqual(afterReport({ status: from, attempt: 1 }, { status: received, reason, attempt }, ON_TIME), verdict);
  });
}

test("cancels a target that stops on request, and retries one that stops without a request", () => {
  for (const from of REVOCABLE_STATUSES) {
    assert.deepEqual(afterReport({ status: from, attempt: 1 }, report("cancelled"), ON_TIME), { to: "queued", reason: "agent_lost" });
    assert.deepEqual(afterReport({ status: from, attempt: 1 }, report("cancelled"), CANCELLED), {
      to: "cancelled",
      reason: "user_cancelled",
    });
    assert.deepEqual(afterReport({ status: from, attempt: 1 }, report("failed", "download_failed"), CANCELLED), {
      to: "cancelled",
      reason: "user_cancelled",
    });
  }
});

test("retries a failed download until no attempts are left", () => {
  const after = (attempt: number) => afterReport({ status: "downloading", attempt }, report("failed", "download_failed", attempt), ON_TIME);
  for (let attempt = 1; attempt < ATTEMPTS_MAX; attempt += 1) assert.deepEqual(after(attempt), { to: "queued", reason: "download_failed" });
  assert.deepEqual(after(ATTEMPTS_MAX), { to: "failed", reason: "download_failed" });
});

test("retries a timed-out target before it installs, and fails it afterwards", () => {
  const late = (from: TargetStatus, attempt: number, cancel_requested = false, online = true) =>
    afterTimeout({ status: from, attempt }, { cancel_requested, online });
  for (const from of REVOCABLE_STATUSES) {
    assert.deepEqual(late(from, 1), { to: "queued", reason: "timeout" });
    assert.deepEqual(late(from, 1, false, false), { to: "queued", reason: "agent_lost" });
    assert.deepEqual(late(from, ATTEMPTS_MAX), { to: "failed", reason: "timeout" });
    assert.deepEqual(late(from, 1, true), { to: "cancelled", reason: "user_cancelled" });
  }
  for (const from of ["installing", "verifying"] as const) {
    assert.deepEqual(late(from, 1), { to: "failed", reason: "timeout" });
    assert.deepEqual(late(from, 1, true, false), { to: "failed", reason: "agent_lost" });
  }
  assert.deepEqual(late("rolling_back", 1), { to: "failed", reason: "rollback_failed" });
});

test("no robot report changes a target that has ended", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...TERMINAL_STATUSES),
      fc.nat({ max: 4 }),
      reported,
      fc.boolean(),
      (ended, attempt, received, cancel_requested) => {
        assert.deepEqual(afterReport({ status: ended, attempt }, received, { cancel_requested }), { ignored: "ended" });
      },
    ),
  );
});

test("a target only moves forward within an attempt, and ignores reports of other attempts", () => {
  const ladder = (one: TargetStatus): number => (isTerminal(one) ? TARGET_STATUSES.length : TARGET_STATUSES.indexOf(one));
  fc.assert(
    fc.property(status, fc.integer({ min: 0, max: ATTEMPTS_MAX }), reported, fc.boolean(), (from, attempt, received, cancel_requested) => {
      const verdict = afterReport({ status: from, attempt }, received, { cancel_requested });
      if ("ignored" in verdict) return;
      assert.equal(received.attempt, attempt);
      assert.ok(isActive(from));
      if (verdict.to === "queued")
        assert.ok(isRevocable(from) && attempt < ATTEMPTS_MAX && !cancel_requested, "only a failed delivery is retried");
      else assert.ok(ladder(verdict.to) > ladder(from), `${from} → ${verdict.to}`);
      if (verdict.to === "cancelled") assert.ok(cancel_requested && isRevocable(from));
    }),
    { numRuns: 2_000 },
  );
});

test("every target ends after a bounded number of steps, whatever the robots report", () => {
  const step = fc.oneof(fc.record({ received: reported }), fc.record({ late: context }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.boolean(), (steps, cancel_requested) => {
      let target: TargetState = { status: "queued", attempt: 0 };
      let moves = 0;
      const move = (to: TargetStatus): void => {
        moves += 1;
        target = { ...target, status: to };
      };
      const dispatch = (): void => {
        if (target.status === "queued") target = { status: "dispatched", attempt: target.attempt + 1 };
      };
      for (const one of steps) {
        dispatch();
        if (isTerminal(target.status)) break;
        if ("late" in one) move(afterTimeout(target, { ...one.late, cancel_requested }).to);
        else {
          const verdict = afterReport(target, one.received, { cancel_requested });
          if ("to" in verdict) move(verdict.to);
        }
      }
      // Without any report, timeouts end a target, whatever its status.
      for (let turns = 0; !isTerminal(target.status); turns += 1) {
        assert.ok(turns <= ATTEMPTS_MAX, "timeouts alone do not end it");
        dispatch();
        move(afterTimeout(target, { cancel_requested, online: true }).to);
      }
      assert.ok(target.attempt <= ATTEMPTS_MAX);
      assert.ok(moves <= ATTEMPTS_MAX * TARGET_STATUSES.length);
    }),
    { numRuns: 1_000 },
  );
});

const NONE: Counts = { total: 0, pending: 0, queued: 0, active: 0, applied: 0, failed: 0, rolled_back: 0, cancelled: 0 };
const counts = (applied: number, failed: number, rolled_back: number, cancelled: number): Counts => ({
  ...NONE,
  total: applied + failed + rolled_back + cancelled,
  applied,
  failed,
  rolled_back,
  cancelled,
});

const ENDS: [a: number, f: number, r: number, c: number, cancel_requested: boolean, end: string][] = [
  [3, 0, 0, 0, false, "applied"],
  [3, 0, 0, 0, true, "applied"],
  [3, 0, 0, 1, false, "applied"],
  [3, 0, 0, 1, true, "cancelled"],
  [0, 0, 0, 2, false, "cancelled"],
  [0, 0, 0, 0, false, "cancelled"],
  [0, 0, 2, 0, false, "rolled_back"],
  [0, 0, 2, 1, false, "rolled_back"],
  [0, 1, 2, 0, false, "failed"],
  [0, 1, 0, 0, true, "failed"],
  [9, 1, 0, 0, false, "failed"],
  [9, 0, 1, 0, false, "failed"],
  [9, 1, 0, 1, true, "cancelled"],
];
for (const [a, f, r, c, cancel_requested, end] of ENDS) {
  test(`a ${cancel_requested ? "cancelled " : ""}deployment of ${a} applied, ${f} failed, ${r} rolled back, ${c} cancelled: ${end}`, () => {
    assert.equal(endOf(counts(a, f, r, c), cancel_requested), end);
  });
}

test("a deployment to one robot has the result of its only target", () => {
  for (const end of TERMINAL_STATUSES) {
    const own = { ...NONE, total: 1, [end]: 1 };
    assert.equal(endOf(own, false), end);
    // Too late to cancel: the robot finished, so its result counts.
    assert.equal(endOf(own, true), end);
  }
});

test("counts each target in one counter, and ends a deployment only when all targets have ended", () => {
  fc.assert(
    fc.property(fc.array(status, { minLength: 1, maxLength: 50 }), (statuses) => {
      const own = { ...NONE, total: statuses.length };
      for (const one of statuses) own[counterOf(one)] += 1;
      assert.equal(own.pending + own.queued + own.active + own.applied + own.failed + own.rolled_back + own.cancelled, own.total);
      assert.equal(allEnded(own), statuses.every(isTerminal));
    }),
  );
  assert.deepEqual(
    ACTIVE_STATUSES.filter((one) => isRevocable(one) === isCommitted(one)),
    [],
  );
});

const ROLLED_BACK = { cancel_requested: false, rollback_requested: true };
const RETURNING = ["return", "return_to_none"] as const satisfies readonly Task[];

test("derives a target's task (install, remove, return) from its releases", () => {
  const target = { kind: "release", release_id: "new", previous_release_id: "old", reverting: false } as const;
  assert.equal(taskOf(target), "install");
  assert.equal(taskOf({ ...target, kind: "config", release_id: null }), "install");
  assert.equal(taskOf({ ...target, release_id: null }), "remove");
  assert.equal(taskOf({ ...target, reverting: true }), "return");
  assert.equal(taskOf({ ...target, previous_release_id: null, reverting: true }), "return_to_none");
});

test("handles every report in every target status during a rollback", () => {
  for (const task of RETURNING)
    for (const from of TARGET_STATUSES)
      for (const received of TARGET_STATUSES_REPORTED)
        for (const attempt of [1, 2])
          for (const context of [ON_TIME, CANCELLED, ROLLED_BACK]) {
            const verdict = afterReport({ status: from, attempt: 2, task }, report(received, null, attempt), context);
            const name = `${task}: ${received} of attempt ${attempt} while ${from}`;
            if (isTerminal(from)) assert.deepEqual(verdict, { ignored: "ended" }, name);
            else if (attempt === 1 || !isActive(from)) assert.deepEqual(verdict, { ignored: "stale_attempt" }, name);
            else if (from !== "rolling_back") continue; // impossible: the target is rolling_back from its dispatch on
            else if (!isTerminal(received)) assert.deepEqual(verdict, { ignored: "backwards" }, name);
            else if (received === "cancelled") assert.deepEqual(verdict, { ignored: "too_late_to_cancel" }, name);
            else if (received === (task === "return" ? "applied" : "rolled_back"))
              assert.deepEqual(verdict, { to: "rolled_back", reason: "rollback_requested" }, name);
            else assert.deepEqual(verdict, { to: "failed", reason: "rollback_failed" }, name);
          }
});

test("a requested rollback reverts robots that install successfully, and is complete for robots that fail to install", () => {
  for (const from of ACTIVE_STATUSES)
    for (const received of ["applied", "rolled_back", "failed"] as const) {
      const verdict = afterReport(
        { status: from, attempt: 1 },
        report(received, received === "applied" ? null : "crash_loop"),
        ROLLED_BACK,
      );
      if (received === "applied") assert.deepEqual(verdict, { to: "rolling_back", reason: "rollback_requested", reverts: true });
      else assert.deepEqual(verdict, { to: received, reason: "crash_loop" });
    }
  for (const from of REVOCABLE_STATUSES) {
    const off = { to: "cancelled", reason: "rollback_requested" };
    assert.deepEqual(afterReport({ status: from, attempt: 1 }, report("cancelled"), ROLLED_BACK), off);
    assert.deepEqual(afterReport({ status: from, attempt: 1 }, report("failed", "download_failed"), ROLLED_BACK), off);
    assert.deepEqual(afterTimeout({ status: from, attempt: 1 }, { ...ROLLED_BACK, online: true }), off);
  }
});

test("an app removal that the robot reports as rolled back counts as applied", () => {
  const target: TargetState = { status: "dispatched", attempt: 1, task: "remove" };
  assert.deepEqual(afterReport(target, report("rolling_back"), ON_TIME), { to: "installing", reason: null });
  assert.deepEqual(afterReport(target, report("rolled_back", "rollback_requested"), ON_TIME), { to: "applied", reason: null });
  assert.deepEqual(afterReport({ ...target, status: "installing" }, report("rolled_back", "rollback_requested"), ON_TIME), {
    to: "applied",
    reason: null,
  });
  assert.deepEqual(afterReport(target, report("failed", "rollback_failed"), ON_TIME), { to: "failed", reason: "rollback_failed" });
  assert.deepEqual(afterReport(target, report("rolled_back", "rollback_requested"), ROLLED_BACK), {
    to: "rolling_back",
    reason: "rollback_requested",
    reverts: true,
  });
});

test("an offline robot may exceed the rollback timeout, but a connected one fails", () => {
  for (const task of RETURNING) {
    assert.equal(isAwaited({ status: "rolling_back", attempt: 2, task }, { online: false }), true);
    assert.equal(isAwaited({ status: "rolling_back", attempt: 2, task }, { online: true }), false);
    assert.deepEqual(afterTimeout({ status: "rolling_back", attempt: 2, task }, { ...ROLLED_BACK, online: true }), {
      to: "failed",
      reason: "rollback_failed",
    });
  }
  assert.equal(
    isAwaited({ status: "rolling_back", attempt: 1 }, { online: false }),
    false,
    "a rollback that the robot began has the usual timeout",
  );
});

test("a rollback ends when no `applied` target is left", () => {
  for (const status of ["in_progress", "paused", "cancelling", "rolling_back"] as const)
    for (const open of ["pending", "queued", "active"] as const) assert.equal(isOver({ ...counts(1, 0, 0, 0), [open]: 1 }, status), false);
  assert.equal(isOver(counts(1, 0, 1, 1), "in_progress"), true);
  assert.equal(isOver(counts(1, 0, 1, 1), "rolling_back"), false);
  assert.equal(isOver(counts(0, 1, 1, 1), "rolling_back"), true);
});

const standing = fc.record({ status: fc.constantFrom(...TARGET_STATUSES), reason: fc.option(fc.constantFrom(...REASONS), { nil: null }) });

test("incremental counts by reason equal a recount of all ended targets", () => {
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

test("returns the most frequent failure reason, or the first by name among equals", () => {
  const counts: ReasonCounts = { failed: { timeout: 2, crash_loop: 1 }, rolled_back: { crash_loop: 1, "": 2 }, applied: { "": 9 } };
  assert.equal(commonestReason(counts, ["failed"]), "timeout");
  assert.equal(commonestReason(counts, ["failed", "rolled_back"]), "crash_loop");
  assert.equal(commonestReason(counts, ["rolled_back"]), null);
  assert.equal(commonestReason(counts, ["cancelled"]), null);
});
