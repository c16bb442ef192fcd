import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { hasPassed, nextStep, type WaveFacts } from "./next-step.ts";

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
};

const TABLE: [name: string, facts: Partial<WaveFacts>, step: ReturnType<typeof nextStep>][] = [
  ["targets are not opened yet", { pending: 3 }, { do: "open", gated: false }],
  ["targets behind a closed gate are still queued", { wave: 1, pending: 3, gate_before: "manual" }, { do: "open", gated: true }],
  [
    "the gate before it was opened",
    { wave: 1, gated: 3, queued: 3, blocked: 3, gate_before: "manual", promoted_wave: 0 },
    { do: "lift_gate" },
  ],
  ["targets wait for a closed gate", { wave: 1, gated: 3, queued: 3, blocked: 3, gate_before: "manual", decided: 0 }, { do: "wait" }],
  ["a robot is updating", { active: 1 }, { do: "wait" }],
  ["a target waits for its artifact", { queued: 1, blocked: 1 }, { do: "wait" }],
  ["only offline robots have not ended", { queued: 2, blocked: 0 }, { do: "pass" }],
  ["all of its robots are offline", { queued: 5, decided: 0 }, { do: "wait" }],
  ["it has no robots", { decided: 0 }, { do: "pass" }],
  ["it soaks", { passed_at: ago(599) }, { do: "soak", until: new Date(NOW.getTime() + 1_000) }],
  ["its soak time is over", { passed_at: ago(600) }, { do: "next", gated: false }],
  ["its soak time is over, and the gate is closed", { passed_at: ago(600), gate: "manual" }, { do: "next", gated: true }],
  ["it was promoted during its soak time", { passed_at: ago(1), gate: "manual", promoted_wave: 0 }, { do: "next", gated: false }],
  ["an offline robot reconnected during its soak time", { passed_at: ago(1), active: 1 }, { do: "pass_again" }],
  ["the last wave has passed", { wave: 2, passed_at: ago(10_000) }, { do: "wait" }],
  ["paused before it is opened", { pending: 3, paused: true }, { do: "wait" }],
  ["paused when its soak time is over", { passed_at: ago(600), paused: true }, { do: "wait" }],
  ["paused when it passes", { paused: true }, { do: "pass" }],
];
for (const [name, facts, step] of TABLE) test(`${name}: ${step.do}`, () => assert.deepEqual(nextStep({ ...FACTS, ...facts }, NOW), step));

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
  })
  .map(({ away, ...facts }) => ({ ...facts, wave_count: 3, queued: facts.blocked + away, gated: 0 }));

test("the next wave starts only after this one has passed and soaked or was promoted, and not while paused", () => {
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

test("offline robots neither pass a wave nor prevent it from passing", () => {
  fc.assert(
    fc.property(anyFacts, fc.nat(5), (facts, more) => {
      if (facts.decided === 0) return;
      assert.equal(hasPassed({ ...facts, queued: facts.queued + more }), hasPassed(facts));
    }),
  );
});
