import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { checkIncidents, type GateCheck, GATE_DATA_WAIT_MS } from "./gate-checks.ts";
import {
  acceptedByResume,
  assignWaves,
  hasPassed,
  isExceeded,
  isTooMany,
  nextStep,
  type Tally,
  type Wave,
  type WaveFacts,
} from "./rules.ts";

const NOW = new Date("2030-01-01T00:00:00Z");
const ago = (seconds: number): Date => new Date(NOW.getTime() - seconds * 1_000);
const FACTS: WaveFacts = {
  wave: 0,
  wave_count: 3,
  pending: 0,
  active: 0,
  decided: 5,
  queued: 0,
  blocked: 0,
  gated: 0,
  passed_at: null,
  soak_seconds: 600,
  gate: "auto",
  gate_before: "auto",
  promoted_wave: -1,
  paused: false,
  checks: [],
  gate_accepted_at: null,
};
const check = (members: Partial<GateCheck>): GateCheck => ({
  ...checkIncidents("warning", undefined, NOW),
  ...members,
});
const FAILING = check({ fails: true, message: "an updated robot of the wave joined an incident" });
const late = (seconds: number): Date => ago(600 + GATE_DATA_WAIT_MS / 1_000 + seconds);

const TABLE: [name: string, facts: Partial<WaveFacts>, step: ReturnType<typeof nextStep>][] = [
  ["its targets are not open yet", { pending: 3 }, { do: "open", gated: false }],
  ["its targets are pending behind a closed gate", { wave: 1, pending: 3, gate_before: "manual" }, { do: "open", gated: true }],
  [
    "the gate before the wave was opened",
    { wave: 1, gated: 3, queued: 3, blocked: 3, gate_before: "manual", promoted_wave: 0 },
    { do: "lift_gate" },
  ],
  ["its targets wait for a closed gate", { wave: 1, gated: 3, queued: 3, blocked: 3, gate_before: "manual", decided: 0 }, { do: "wait" }],
  ["a robot is updating", { active: 1 }, { do: "wait" }],
  ["a target waits for its artifact", { queued: 1, blocked: 1 }, { do: "wait" }],
  ["all robots except offline ones have ended", { queued: 2, blocked: 0 }, { do: "pass" }],
  ["all of its robots are offline", { queued: 5, decided: 0 }, { do: "wait" }],
  ["it has no robots", { decided: 0 }, { do: "pass" }],
  ["its soak time is not over", { passed_at: ago(599) }, { do: "soak", until: new Date(NOW.getTime() + 1_000) }],
  ["its soak time is over", { passed_at: ago(600) }, { do: "next", gated: false }],
  ["its soak time is over, and the gate is closed", { passed_at: ago(600), gate: "manual" }, { do: "next", gated: true }],
  ["it was promoted during its soak time", { passed_at: ago(1), gate: "manual", promoted_wave: 0 }, { do: "next", gated: false }],
  ["an offline robot reconnected during its soak time", { passed_at: ago(1), active: 1 }, { do: "pass_again" }],
  ["the last wave has passed", { wave: 2, passed_at: ago(10_000) }, { do: "wait" }],
  ["the rollout is paused before the wave opens", { pending: 3, paused: true }, { do: "wait" }],
  ["the rollout is paused when the soak time is over", { passed_at: ago(600), paused: true }, { do: "wait" }],
  [
    "a check fails while robots are updating",
    { active: 1, checks: [FAILING] },
    { do: "fail_gate", check: FAILING, message: FAILING.message },
  ],
  ["a check fails, and the wave was promoted", { passed_at: ago(1), checks: [FAILING], promoted_wave: 0 }, { do: "next", gated: false }],
  ["a check fails in the last wave", { wave: 2, passed_at: ago(600), checks: [FAILING] }, { do: "wait" }],
  ["its checks cover the soak time", { passed_at: ago(600), checks: [check({ covered_until: NOW })] }, { do: "next", gated: false }],
  [
    "a check does not cover the soak time",
    { passed_at: ago(600), checks: [check({ covered_until: ago(1) })] },
    { do: "await_data", check: check({ covered_until: ago(1) }), until: new Date(NOW.getTime() + 5_000) },
  ],
  [
    "the data of a check did not arrive",
    { passed_at: late(0), checks: [check({ covered_until: null })] },
    { do: "fail_gate", check: check({ covered_until: null }), message: check({}).missing },
  ],
  [
    "a user accepted that the data of a check is missing",
    { passed_at: late(1), checks: [check({ covered_until: null })], gate_accepted_at: ago(0) },
    { do: "next", gated: false },
  ],
  ["the rollout is paused when the wave passes", { paused: true }, { do: "pass" }],
];
for (const [name, facts, step] of TABLE)
  test(`the next step of a wave is ${step.do} if ${name}`, () => assert.deepEqual(nextStep({ ...FACTS, ...facts }, NOW), step));

const WAIT_SECONDS = GATE_DATA_WAIT_MS / 1_000;
const anyFacts: fc.Arbitrary<WaveFacts> = fc
  .record({
    wave: fc.nat(2),
    pending: fc.nat(2),
    active: fc.nat(2),
    decided: fc.nat(2),
    blocked: fc.nat(2),
    away: fc.nat(2),
    passed_at: fc.option(fc.nat(1_200).map(ago), { nil: null }),
    soak_seconds: fc.constantFrom(0, 600),
    gate: fc.constantFrom("auto" as const, "manual" as const),
    gate_before: fc.constantFrom("auto" as const, "manual" as const),
    promoted_wave: fc.integer({ min: -1, max: 2 }),
    paused: fc.boolean(),
    checks: fc.array(
      fc.record({ fails: fc.boolean(), covered_until: fc.option(fc.nat(1_200).map(ago), { nil: null }) }).map((members) => check(members)),
      { maxLength: 2 },
    ),
    gate_accepted_at: fc.option(fc.integer({ min: -2 * WAIT_SECONDS, max: 1_200 }).map(ago), { nil: null }),
  })
  .map(({ away, ...facts }) => ({ ...facts, wave_count: 3, queued: facts.blocked + away, gated: 0 }));

test("starts the next wave only after the previous one has soaked or was promoted, never while paused", () => {
  fc.assert(
    fc.property(anyFacts, (facts) => {
      const step = nextStep(facts, NOW);
      if (facts.paused) assert.ok(["wait", "pass", "pass_again"].includes(step.do));
      if (step.do !== "next") return;
      assert.ok(hasPassed(facts) && facts.wave < 2 && facts.passed_at !== null);
      const promoted = facts.promoted_wave >= facts.wave;
      assert.ok(promoted || facts.passed_at.getTime() + facts.soak_seconds * 1_000 <= NOW.getTime());
      assert.equal(step.gated, !promoted && facts.gate === "manual");
    }),
  );
});

test("starts the next wave without a promotion only if no check fails and each covers the soak time, or its absence was accepted", () => {
  fc.assert(
    fc.property(anyFacts, (facts) => {
      const step = nextStep(facts, NOW);
      if (step.do !== "next" || facts.promoted_wave >= facts.wave) return;
      const until = (facts.passed_at?.getTime() ?? Infinity) + facts.soak_seconds * 1_000;
      assert.ok(facts.checks.every(({ fails }) => !fails));
      const accepted = (facts.gate_accepted_at?.getTime() ?? -Infinity) >= until + GATE_DATA_WAIT_MS;
      assert.ok(accepted || facts.checks.every(({ covered_until }) => covered_until !== null && covered_until.getTime() >= until));
    }),
  );
});

test("after its soak time, a passed wave waits at most an hour for the data of its checks", () => {
  fc.assert(
    fc.property(anyFacts, (facts) => {
      const waiting = { ...facts, pending: 0, active: 0, blocked: 0, queued: 0, gated: 0, decided: 1, paused: false, wave: facts.wave % 2 };
      const passed_at = facts.passed_at ?? NOW;
      const late = new Date(passed_at.getTime() + facts.soak_seconds * 1_000 + GATE_DATA_WAIT_MS);
      assert.ok(["next", "fail_gate"].includes(nextStep({ ...waiting, passed_at }, late).do));
    }),
  );
});

test("offline robots have no influence on whether a rollout wave passes", () => {
  fc.assert(
    fc.property(anyFacts, fc.nat(5), (facts, more) => {
      if (facts.decided === 0) return;
      assert.equal(hasPassed({ ...facts, queued: facts.queued + more }), hasPassed(facts));
    }),
  );
});

const tally = (failed: number, dispatched: number, applied = dispatched - failed): Tally => ({
  applied,
  failed,
  rolled_back: 0,
  dispatched,
});
const policy = (failure_threshold: Parameters<typeof isTooMany>[1]) => ({ waves: null, failure_threshold });

const TOO_MANY: [name: string, too_many: boolean, Tally, Parameters<typeof isTooMany>[1]][] = [
  ["without a threshold no failure is allowed", true, tally(1, 1_000), null],
  ["without failures the threshold is not exceeded", false, tally(0, 10), null],
  ["as many failures as the count allows", false, tally(3, 10), { count: 3, min_decided: 1 }],
  ["one failure more than the count allows", true, tally(4, 10), { count: 3, min_decided: 1 }],
  ["exactly the allowed percentage of the dispatched robots", false, tally(10, 100), { percent: 10, min_decided: 1 }],
  ["one failure more than the allowed percentage", true, tally(11, 100), { percent: 10, min_decided: 1 }],
  ["the percentage refers to dispatched robots, not to ended ones", false, tally(2, 20, 0), { percent: 10, min_decided: 1 }],
  ["a robot cannot run the release, before any dispatch", true, tally(1, 0, 0), { percent: 50, min_decided: 1 }],
];
for (const [name, too_many, fared, threshold] of TOO_MANY)
  test(`failures ${too_many ? "exceed" : "do not exceed"} the threshold: ${name}`, () =>
    assert.equal(isTooMany(fared, threshold), too_many));

test("counts rolled back robots as failures", () => {
  assert.ok(isTooMany({ applied: 0, failed: 1, rolled_back: 1, dispatched: 10 }, { count: 1, min_decided: 1 }));
});

test("a rollout stops early only with waves or a threshold, after min_decided robots have ended", () => {
  assert.equal(isExceeded(tally(5, 5), policy(null), 0), false);
  assert.equal(isExceeded(tally(5, 5), { waves: [], failure_threshold: null }, 0), true);
  assert.equal(isExceeded(tally(5, 9), policy({ percent: 10, min_decided: 10 }), 0), false);
  assert.equal(isExceeded(tally(5, 10), policy({ percent: 10, min_decided: 10 }), 0), true);
});

const anyTally = fc
  .record({ applied: fc.nat(50), failed: fc.nat(50), rolled_back: fc.nat(50), active: fc.nat(50) })
  .map(({ active, ...ends }): Tally => ({ ...ends, dispatched: ends.applied + ends.failed + ends.rolled_back + active }));
const anyThreshold = fc.oneof(
  fc.record({ percent: fc.nat(100), min_decided: fc.integer({ min: 1, max: 30 }) }),
  fc.record({ count: fc.nat(50), min_decided: fc.integer({ min: 1, max: 30 }) }),
);

test("after a resume, only a further failure exceeds the failure threshold again", () => {
  fc.assert(
    fc.property(anyTally, anyThreshold, (fared, threshold) => {
      const accepted = acceptedByResume(fared, policy(threshold), 0);
      assert.equal(accepted > 0, isExceeded(fared, policy(threshold), 0));
      assert.equal(isExceeded(fared, policy(threshold), accepted), false);
      // Robots that were dispatched since the resume lower the percentage of failures. Even then, a further failure must not be allowed.
      const worse = { ...fared, failed: fared.failed + 1, dispatched: fared.dispatched + 1_000, applied: fared.applied + 999 };
      assert.equal(isExceeded(worse, policy(threshold), accepted), accepted > 0 || isExceeded(worse, policy(threshold), 0));
      assert.equal(acceptedByResume(worse, policy(threshold), accepted) >= accepted, true);
    }),
  );
});

test("a further failure never brings a rollout back below its failure threshold", () => {
  fc.assert(
    fc.property(anyTally, anyThreshold, (fared, threshold) => {
      const worse = { ...fared, applied: Math.max(0, fared.applied - 1), failed: fared.failed + Math.min(1, fared.applied) };
      if (isTooMany(fared, threshold)) assert.ok(isTooMany(worse, threshold));
    }),
  );
});

const wave = (members: Partial<Wave>): Wave => ({ soak_seconds: 0, gate: "auto", ...members });
const robots = (count: number, zone: (i: number) => string = () => "a") =>
  Array.from({ length: count }, (_, i) => ({ labels: { zone: zone(i) } }));
const sizes = (of_robot: readonly number[], waves: number): number[] =>
  Array.from({ length: waves + 1 }, (_, number) => of_robot.filter((one) => one === number).length);

test("wave percentages are cumulative, refer to all robots and are rounded up", () => {
  assert.deepEqual(sizes(assignWaves(robots(1_000), [wave({ percent: 1 }), wave({ percent: 10 })]), 2), [10, 90, 900]);
  assert.deepEqual(sizes(assignWaves(robots(7), [wave({ percent: 5 }), wave({ percent: 50 })]), 2), [1, 3, 3]);
  assert.deepEqual(sizes(assignWaves(robots(3), [wave({ count: 2 }), wave({ count: 50 })]), 2), [2, 1, 0]);
});

test("a wave selected by labels contains the matching robots, which count in later percentages", () => {
  const of_robot = assignWaves(
    robots(10, (i) => (i % 5 === 4 ? "b" : "a")),
    [wave({ labels: { zone: "b" } }), wave({ percent: 50 })],
  );
  assert.deepEqual(of_robot, [1, 1, 1, 2, 0, 2, 2, 2, 2, 0]);
});

const anyWave = fc.oneof(
  fc.integer({ min: 1, max: 100 }).map((percent) => wave({ percent })),
  fc.integer({ min: 1, max: 30 }).map((count) => wave({ count })),
  fc.constantFrom("a", "b").map((zone) => wave({ labels: { zone } })),
);

test("assigns each robot to one wave, and fills each wave to the requested size", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 40 }), fc.array(anyWave, { maxLength: 6 }), (zones, waves) => {
      const of_robot = assignWaves(
        zones.map((zone) => ({ labels: { zone } })),
        waves,
      );
      assert.equal(of_robot.length, zones.length);
      for (const [number, { percent, count, labels }] of waves.entries()) {
        const so_far = of_robot.filter((one) => one <= number).length;
        const before = of_robot.filter((one) => one < number).length;
        if (labels !== undefined) assert.ok(zones.every((zone, i) => zone !== labels.zone || (of_robot[i] as number) <= number));
        else assert.equal(so_far, Math.max(before, Math.min(zones.length, count ?? Math.ceil((zones.length * (percent as number)) / 100))));
      }
    }),
  );
});
