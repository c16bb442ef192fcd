import assert from "node:assert/strict";
import { test } from "node:test";
import { TARGET_STATUSES, type TargetStatus } from "@roamfleet/protocol";
import fc from "fast-check";
import { decide, type DispatchFacts } from "./decide.ts";
import { isCommitted, isRevocable } from "./state.ts";

const ROBOT = { online: true, decommissioned: false, kinds: ["file", "app_bundle"] };
const FACTS: DispatchFacts = {
  order_number: 5,
  robot: ROBOT,
  release: { kind: "file", artifact_state: "stored" },
  rivals: [],
  last_order_number: 0,
};
const facts = (changes: Partial<DispatchFacts>): DispatchFacts => ({ ...FACTS, ...changes });

const TABLE: [name: string, changes: Partial<DispatchFacts>, decision: ReturnType<typeof decide>][] = [
  ["dispatches to an online robot", {}, { dispatch: true, supersede: [] }],
  ["is cancelled if the robot does not exist", { robot: undefined }, { end: "cancelled", reason: "robot_removed" }],
  [
    "is cancelled if the robot is decommissioned",
    { robot: { ...ROBOT, decommissioned: true } },
    { end: "cancelled", reason: "robot_removed" },
  ],
  ["is cancelled if a newer deployment was dispatched before", { last_order_number: 6 }, { end: "cancelled", reason: "superseded" }],
  ["is not cancelled if an older deployment was dispatched before", { last_order_number: 4 }, { dispatch: true, supersede: [] }],
  ["is not cancelled by its own earlier attempt", { last_order_number: 5 }, { dispatch: true, supersede: [] }],
  ["waits for its artifact", { release: { kind: "file", artifact_state: "awaiting_upload" } }, { wait: "artifact" }],
  [
    "waits for its artifact rather than for the robot",
    { release: { kind: "file", artifact_state: "awaiting_upload" }, robot: { ...ROBOT, online: false } },
    { wait: "artifact" },
  ],
  [
    "needs no artifact for an image from a registry",
    { release: { kind: "file", artifact_state: "external" } },
    { dispatch: true, supersede: [] },
  ],
  ["waits for an offline robot", { robot: { ...ROBOT, online: false } }, { wait: "robot_online" }],
  [
    "fails if the robot cannot install the release kind",
    { release: { kind: "container_image", artifact_state: "stored" } },
    { end: "failed", reason: "incompatible" },
  ],
  ["ignores the robot's kinds for a config", { release: undefined, robot: { ...ROBOT, kinds: [] } }, { dispatch: true, supersede: [] }],
  [
    "waits until a running installation finishes",
    { rivals: [{ id: "tgt_3", order_number: 3, status: "installing" }] },
    { wait: "previous_deployment" },
  ],
  [
    "does not supersede a newer waiting target",
    { rivals: [{ id: "tgt_7", order_number: 7, status: "queued" }] },
    { dispatch: true, supersede: [] },
  ],
  [
    "supersedes older targets up to staged",
    {
      rivals: [
        { id: "tgt_2", order_number: 2, status: "staged" },
        { id: "tgt_3", order_number: 3, status: "queued" },
        { id: "tgt_4", order_number: 4, status: "dispatched" },
      ],
    },
    { dispatch: true, supersede: ["tgt_2", "tgt_3", "tgt_4"] },
  ],
  [
    "does not supersede a pending target of a later wave",
    { rivals: [{ id: "tgt_3", order_number: 3, status: "pending" }] },
    { dispatch: true, supersede: [] },
  ],
];
for (const [name, changes, decision] of TABLE)
  test(`dispatch decision: a target ${name}`, () => assert.deepEqual(decide(facts(changes)), decision));

test("a target never supersedes or overtakes an installing target of the same robot", () => {
  const rival = fc
    .record({ order_number: fc.integer({ min: 1, max: 9 }), status: fc.constantFrom<TargetStatus>(...TARGET_STATUSES) })
    // The ids have the opposite order, which must not matter.
    .map((one) => ({ ...one, id: `tgt_${9 - one.order_number}` }));
  fc.assert(
    fc.property(fc.array(rival, { maxLength: 6 }), (rivals) => {
      const decision = decide(facts({ rivals }));
      if (rivals.some(({ status }) => isCommitted(status))) assert.deepEqual(decision, { wait: "previous_deployment" });
      else {
        assert.ok("dispatch" in decision);
        const superseded = rivals.filter(
          ({ id, status }) => decision.supersede.includes(id) && (isRevocable(status) || status === "queued"),
        );
        assert.ok(superseded.every(({ order_number }) => order_number < FACTS.order_number));
      }
    }),
  );
});
