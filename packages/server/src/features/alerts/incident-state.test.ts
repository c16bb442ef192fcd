import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  type Candidate,
  GROUP_WAIT_MS,
  GROUP_WINDOW_MS,
  type IncidentMessage,
  type IncidentState,
  joinedIncident,
  openIncident,
  REOPEN_WINDOW_MS,
  stepIncident,
} from "./incident-state.ts";

const START = new Date("2030-01-01T00:00:00Z");
const STEP_MS = 10_000;
const after = (ms: number): Date => new Date(START.getTime() + ms);

/** The incident of one robot whose condition is true or false at each evaluation. Returns what happened. */
function run(truth: readonly boolean[], muted: (at: number) => boolean = () => false) {
  const messages: { message: IncidentMessage; at: number }[] = [];
  const states: { incident: IncidentState; matching: boolean }[] = [];
  let incident: IncidentState | undefined;
  let was_matching = false;
  truth.forEach((matching, i) => {
    const now = after(i * STEP_MS);
    const started = matching && !was_matching;
    was_matching = matching;
    const candidate = incident && { ...incident, id: "inc", rule_id: "alr", group_id: "site", members: new Set(["rob"]) };
    if (started && joinedIncident({ rule_id: "alr", subject_id: "rob", group_id: "site" }, candidate ? [candidate] : [], now) === undefined)
      incident = openIncident(now);
    if (incident === undefined) return;
    const step = stepIncident(incident, { now, joined: started, active: matching ? 1 : 0, muted: muted(i) });
    incident = step.incident;
    messages.push(...step.messages.map((message) => ({ message, at: i })));
    states.push({ incident, matching });
  });
  return { messages, states };
}

const truths = fc.array(fc.boolean(), { maxLength: 400 });
/** Runs of equal values, which reach the holding times that random values do not. */
const runs = fc
  .array(fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 250 })), { maxLength: 12 })
  .map((parts) => parts.flatMap(([value, times]) => Array.from({ length: times }, () => value)));

test("messages alternate between opened and resolved, beginning with opened", () => {
  fc.assert(
    fc.property(fc.oneof(truths, runs), (truth) => {
      const { messages } = run(truth);
      // A new incident after the reopening window also begins with `opened`.
      messages.forEach(({ message }, i) => assert.equal(message, i % 2 === 0 ? "opened" : "resolved"));
    }),
  );
});

test("an incident is not resolved while a member matches, and is resolved when none has matched for long enough", () => {
  fc.assert(
    fc.property(fc.oneof(truths, runs), (truth) => {
      for (const { incident, matching } of run(truth).states) {
        if (matching) assert.notEqual(incident.status, "resolved");
        assert.equal(incident.status === "resolved", incident.resolved_at !== null);
      }
      const quiet = run([...truth, ...Array.from({ length: 200 }, () => false)]).states.at(-1);
      assert.ok(quiet === undefined || quiet.incident.status === "resolved");
    }),
  );
});

test("each opening is notified, also if the next evaluation is late", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 86_400_000 }), fc.boolean(), (late_ms, active) => {
      const opened = stepIncident(openIncident(START), { now: START, joined: true, active: 1, muted: false });
      const cleared = stepIncident(opened.incident, { now: after(STEP_MS), joined: false, active: active ? 1 : 0, muted: false });
      const next = stepIncident(cleared.incident, {
        now: after(GROUP_WAIT_MS + late_ms),
        joined: false,
        active: active ? 1 : 0,
        muted: false,
      });
      assert.deepEqual([...opened.messages, ...cleared.messages], []);
      assert.equal(next.messages[0], "opened");
    }),
  );
});

test("sends at most 10 messages in 10 minutes for a robot that flaps at any rate", () => {
  for (let up = 1; up <= 30; up += 1)
    for (let down = 1; down <= 30; down += 1) {
      const truth = Array.from({ length: 60 }, (_, i) => i % (up + down) < down);
      const { messages } = run(truth);
      assert.ok(messages.length <= 10, `${up} up, ${down} down: ${messages.length} messages`);
    }
});

test("sends at most 100 messages a day for a robot that flaps, and counts the reopenings", () => {
  const day = Array.from({ length: 8_640 }, (_, i) => i % 14 < 1);
  const { messages, states } = run(day);
  assert.ok(messages.length <= 100, String(messages.length));
  assert.equal(states.at(-1)?.incident.flap_count, 1);
});

test("queues no opening while muted, then queues it when the mute ends, and resolves without messages if it was never notified", () => {
  const until_minute_10 = (i: number): boolean => i < 60;
  assert.deepEqual(
    run(
      Array.from({ length: 120 }, () => true),
      until_minute_10,
    ).messages,
    [{ message: "opened", at: 60 }],
  );
  const short = Array.from({ length: 60 }, (_, i) => i < 10);
  assert.deepEqual(run(short, until_minute_10).messages, []);
});

const candidates = fc.array(
  fc.record({
    id: fc.uuid(),
    rule_id: fc.constantFrom("a", "b"),
    group_id: fc.constantFrom("x", "y"),
    joined_at: fc.integer({ min: -2 * GROUP_WINDOW_MS, max: 0 }).map(after),
    resolved_at: fc.option(fc.integer({ min: -2 * REOPEN_WINDOW_MS, max: 0 }).map(after)),
    members: fc.uniqueArray(fc.constantFrom("r1", "r2", "r3")).map((members) => new Set(members)),
  }),
  { maxLength: 6 },
);

test("a match joins only incidents of its rule and group: its own one first, else one that has grown recently", () => {
  fc.assert(
    fc.property(candidates, fc.constantFrom("a", "b"), fc.constantFrom("x", "y"), (some: Candidate[], rule_id, group_id) => {
      const joined = joinedIncident({ rule_id, group_id, subject_id: "r1" }, some, START);
      const same = some.filter((one) => one.rule_id === rule_id && one.group_id === group_id);
      if (joined === undefined) {
        for (const { members, resolved_at, joined_at } of same) {
          assert.ok(!members.has("r1") || (resolved_at !== null && START.getTime() - resolved_at.getTime() > REOPEN_WINDOW_MS));
          assert.ok(resolved_at !== null || START.getTime() - joined_at.getTime() > GROUP_WINDOW_MS);
        }
        return;
      }
      assert.ok(same.includes(joined));
      const of_it = same.filter(({ members, resolved_at }) => members.has("r1") && resolved_at === null);
      if (of_it.length > 0) assert.ok(of_it.includes(joined));
      if (joined.resolved_at !== null) assert.ok(joined.members.has("r1"));
    }),
  );
});
