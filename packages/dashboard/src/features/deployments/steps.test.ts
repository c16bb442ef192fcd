import assert from "node:assert/strict";
import { test } from "node:test";
import type { DeploymentWave } from "@roamfleet/protocol/routes";
import { differingRobots, policyDifferences, rangesOf, reasonText, secondsOf, targetText, waveText } from "./deployment-text.ts";
import { countdownText, readSeconds, writeSeconds } from "./draft.ts";
import { latestStatuses, patchPages, type TargetRow } from "./patch-targets.ts";
import { situationOf, type StepName, stepsOf } from "./steps.ts";

const NOW_MS = Date.parse("2030-01-01T00:00:00Z");
const COUNTS = { total: 100, pending: 90, queued: 0, active: 0, applied: 8, failed: 1, rolled_back: 1, cancelled: 0 };
const DEPLOYMENT = {
  id: "dep_1",
  status: "in_progress",
  counts: COUNTS,
  wave: 0,
  wave_count: 2,
  reason: null,
  rollback_of: null,
} as const;
const WAVE: DeploymentWave = {
  wave: 0,
  percent: 10,
  count: null,
  labels: null,
  soak_seconds: 600,
  gate: "auto",
  gate_incidents: null,
  gate_metrics: [],
  gate_checks: [],
  status: "soaking",
  ...COUNTS,
  total: 10,
  pending: 0,
  offline: 0,
  opened_at: null,
  passed_at: null,
  soaks_until: "2030-01-01T00:05:00Z",
};
const WAVES = [WAVE, { ...WAVE, wave: 1, status: "pending" as const, total: 90, soaks_until: null }];

const stepOf = (name: StepName, change: object = {}, waves: readonly DeploymentWave[] = WAVES) =>
  stepsOf({ ...DEPLOYMENT, ...change }, waves, NOW_MS).find((step) => step.name === name)!;
const possible = (change: object, waves: readonly DeploymentWave[] = WAVES): StepName[] =>
  stepsOf({ ...DEPLOYMENT, ...change }, waves, NOW_MS)
    .filter(({ why_not }) => why_not === undefined)
    .map(({ name }) => name);

test("disables deployment actions that the status does not allow, with the reason", () => {
  assert.deepEqual(possible({}), ["pause", "promote", "cancel", "cancel_rollback", "rollback"]);
  assert.deepEqual(possible({ status: "paused" }), ["resume", "cancel", "cancel_rollback", "rollback"]);
  assert.deepEqual(possible({ status: "scheduled", counts: { ...COUNTS, applied: 0 } }), ["cancel"]);
  assert.deepEqual(possible({ status: "failed" }), ["rollback", "retry"]);
  assert.deepEqual(possible({ status: "applied", counts: { ...COUNTS, failed: 0, rolled_back: 0 } }), ["rollback"]);
  assert.equal(stepOf("promote", { status: "paused" }).why_not, "The deployment is paused: resume it first.");
  assert.equal(
    stepOf("promote", {}, [{ ...WAVE, status: "open", active: 3 }, WAVES[1]!]).why_not,
    "Wave 1 is not complete: 3 robots have not finished.",
  );
  assert.equal(stepOf("promote", {}, []).why_not, "The waves are not loaded.");
  assert.equal(stepOf("promote", { wave_count: 1 }, [WAVE]).why_not, "The deployment has no waves.");
});

test("the confirmation of a deployment action shows its effect and the rf command", () => {
  const promote = stepOf("promote");
  assert.equal(promote.consequence, "90 robots can start immediately. Skips 5 min of soak time.");
  assert.equal(promote.command, "rf deployments promote dep_1");
  assert.match(stepOf("rollback").consequence, /^8 robots roll back to their previous releases\. 90 robots will not receive the release\./);
  assert.equal(stepOf("cancel_rollback").command, "rf deployments cancel dep_1 --rollback");
  assert.equal(stepOf("retry", { status: "failed" }).verb, "Retry on 2 robots");
  assert.match(
    stepOf("resume", { status: "paused", reason: "threshold_exceeded" }).consequence,
    /The 2 failures so far are accepted: the next failure stops the deployment again/,
  );
  assert.doesNotMatch(stepOf("resume", { status: "paused" }).consequence, /failures/);
});

test("counts the offline robots among the queued robots of the open wave", () => {
  const rollout = { window: null } as never;
  const counts = { ...COUNTS, total: 2_000, pending: 0, queued: 1_950, active: 50 };
  const wave = { ...WAVE, status: "open" as const, queued: 1_950, active: 50, offline: 1_950 };
  const facts = { ...DEPLOYMENT, counts, scheduled_at: null, rollout };
  assert.equal(situationOf(facts, [wave]).text, "50 robots updating, 1,950 queued, 1,950 of them offline.");
  assert.equal(
    situationOf({ ...facts, counts: { ...counts, active: 0 } }, [wave]).text,
    "1,950 robots are offline and get the release when they connect.",
  );
  const first = { ...wave, status: "passed" as const, queued: 5, offline: 5 };
  assert.match(situationOf(facts, [first, { ...wave, wave: 1, offline: 7 }]).text, /^Wave 2 of 2: .* 1,950 queued, 7 of them offline\.$/);
});

test("a config deployment has no rollback and no retry, and its actions name configs", () => {
  const config = { ...DEPLOYMENT, id: "cdep_1" };
  const steps = stepsOf(config, WAVES, NOW_MS);
  assert.deepEqual(
    steps.map(({ name, command }) => `${name}: ${command}`),
    [
      "pause: rf configs pause cdep_1",
      "resume: rf configs resume cdep_1",
      "promote: rf configs promote cdep_1",
      "cancel: rf configs cancel cdep_1",
    ],
  );
  assert.match(steps.at(-1)?.consequence ?? "", /^90 robots will not receive the config\. 8 robots keep the new config\./);
  const facts = { ...config, scheduled_at: null, rollout: { window: null } as never };
  const counts = { ...COUNTS, pending: 0, queued: 5 };
  assert.equal(
    situationOf({ ...facts, counts }, [{ ...WAVE, status: "passed", offline: 5 }]).text,
    "5 robots are offline and get the config when they connect.",
  );
});

test("describes the state of a deployment", () => {
  const facts = { ...DEPLOYMENT, scheduled_at: null, rollout: { window: null } as never };
  assert.deepEqual(situationOf(facts, WAVES), {
    tone: "info",
    text: "Wave 1 of 2 is complete and soaking.",
    until: "2030-01-01T00:05:00Z",
  });
  const gate_checks = [
    { kind: "incidents" as const, state: "failing" as const, message: "a robot joined an incident", incident_id: "inc_1" },
  ];
  const failed = situationOf({ ...facts, status: "paused", reason: "gate_failed" }, [{ ...WAVE, gate_checks }]);
  assert.deepEqual(
    [failed.text, failed.incident_id],
    ["Paused: the gate of a wave failed: a robot joined an incident. Remaining robots on hold.", "inc_1"],
  );
  assert.match(situationOf(facts, [WAVE, { ...WAVES[1]!, status: "gate" }]).text, /Wave 2 of 2 is awaiting promotion/);
  assert.match(
    situationOf({ ...facts, status: "paused", reason: "threshold_exceeded" }, WAVES).text,
    /^Paused: 2 of 10 robots failed \(none allowed\)\./,
  );
  const limited = { ...facts, rollout: { window: null, failure_threshold: { percent: 12 } } as never };
  assert.match(
    situationOf({ ...limited, status: "failed", reason: "threshold_exceeded" }, WAVES).text,
    /^Failed: 2 of 10 robots failed \(limit 12%\)\./,
  );
});

test("labels each wave with its range of robots", () => {
  assert.deepEqual(rangesOf([{ total: 1 }, { total: 99 }, { total: 0 }, { total: 900 }]), [
    "robot 1 of 1,000",
    "robots 2–100 of 1,000",
    "no robots",
    "robots 101–1,000 of 1,000",
  ]);
  assert.equal(waveText({ labels: { zone: "a" } }), "robots with zone=a");
});

test("formats countdowns and parses durations", () => {
  const until = (seconds: number): string => new Date(NOW_MS + 1_000 * seconds).toISOString();
  assert.equal(countdownText(until(545), NOW_MS), "9:05");
  assert.equal(countdownText(until(3_729), NOW_MS), "1:02:09");
  assert.equal(countdownText(until(3 * 86_400 + 4 * 3_600), NOW_MS), "3 d 4 h");
  assert.equal(countdownText(until(0), NOW_MS), undefined);
  assert.equal(readSeconds("90m"), 5_400);
  assert.equal(readSeconds("soon"), undefined);
  assert.equal(writeSeconds(5_400), "90m");
});

test("shows what a queued robot waits for instead of its status reason", () => {
  assert.equal(targetText({ status: "queued", reason: "timeout", waiting_for: "robot_online" }), "robot offline: starts when it connects");
  assert.equal(targetText({ status: "failed", reason: "crash_loop", waiting_for: null }), "the program crashed repeatedly");
  const removed = { status: "rolled_back", reason: "rollback_requested", waiting_for: null, removed: true };
  assert.equal(targetText(removed), "app removed from the robot");
  assert.equal(reasonText("of_tomorrow"), "of tomorrow");
});

test("compares two deployments by the results of their robots and their rollout policies", () => {
  const target = (robot_id: string, status: string) => ({ robot_id, status, reason: null });
  const differ = differingRobots(
    [target("a", "applied"), target("b", "applied")],
    [target("a", "applied"), target("b", "failed"), target("c", "applied")],
  );
  assert.deepEqual(
    differ.map(({ robot_id, a, b }) => [robot_id, a?.status, b?.status]),
    [
      ["b", "applied", "failed"],
      ["c", undefined, "applied"],
    ],
  );
  assert.equal(secondsOf({ started_at: "2030-01-01T00:00:00Z", finished_at: "2030-01-01T00:01:30Z" }), 90);
  assert.deepEqual(policyDifferences({ max_attempts: 3 } as never, { max_attempts: 5 } as never), [
    { name: "Attempts per robot", a: "3", b: "5" },
  ]);
  assert.deepEqual(policyDifferences({ waves: null } as never, { waves: [{ count: 1, gate: "manual" }] } as never), [
    { name: "Waves", a: "none: all robots at once", b: "1, then remaining robots" },
    { name: "Failure limit", a: "—", b: "no failures allowed" },
    { name: "On failure", a: "—", b: "stop: remaining robots are not updated" },
    { name: "Wave 1", a: "—", b: "up to 1 robot, manual promotion" },
  ]);
});

const row = (robot_id: string, status: string): TargetRow => ({
  robot_id,
  status,
  reason: null,
  waiting_for: "slot",
  progress: { bytes_done: 1, bytes_total: 2 },
});

test("uses only the last status change of each robot in the deployment", () => {
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

test("a status change replaces only the robot's row and clears its outdated fields", () => {
  const pages = [{ items: [row("rob_1", "queued"), row("rob_2", "queued")] }, { items: [row("rob_3", "queued")] }];
  const [first, second] = patchPages(pages, new Map([["rob_1", "downloading"]]));
  assert.deepEqual(first?.items[0], { ...row("rob_1", "downloading"), waiting_for: null });
  assert.equal(first?.items[1], pages[0]?.items[1]);
  assert.equal(second, pages[1]);
});

test("clears the download progress of a finished robot and ignores repeated statuses", () => {
  const pages = [{ items: [row("rob_1", "downloading")] }];
  assert.equal(patchPages(pages, new Map([["rob_1", "applied"]]))[0]?.items[0]?.progress, null);
  assert.equal(patchPages(pages, new Map([["rob_1", "downloading"]]))[0], pages[0]);
});
