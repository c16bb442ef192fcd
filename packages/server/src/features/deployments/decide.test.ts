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
  ["an online robot gets it", {}, { dispatch: true, supersede: [] }],
  ["a robot that is gone ends it", { robot: undefined }, { end: "cancelled", reason: "robot_removed" }],
  ["a decommissioned robot ends it", { robot: { ...ROBOT, decommissioned: true } }, { end: "cancelled", reason: "robot_removed" }],
  ["a newer one that went first ends it", { last_order_number: 6 }, { end: "cancelled", reason: "superseded" }],
  ["an older one that went first does not", { last_order_number: 4 }, { dispatch: true, supersede: [] }],
  ["its own earlier attempt does not", { last_order_number: 5 }, { dispatch: true, supersede: [] }],
  ["it waits for its artifact", { release: { kind: "file", artifact_state: "awaiting_upload" } }, { wait: "artifact" }],
  [
    "it waits for its artifact rather than for the robot",
    { release: { kind: "file", artifact_state: "awaiting_upload" }, robot: { ...ROBOT, online: false } },
    { wait: "artifact" },
  ],
  [
    "an image from a registry needs no artifact",
    { release: { kind: "file", artifact_state: "external" } },
    { dispatch: true, supersede: [] },
  ],
  ["it waits for a robot that is away", { robot: { ...ROBOT, online: false } }, { wait: "robot_online" }],
  [
    "a kind that the robot cannot install fails",
    { release: { kind: "container_image", artifact_state: "stored" } },
    { end: "failed", reason: "incompatible" },
  ],
  ["a config has no kind", { release: undefined, robot: { ...ROBOT, kinds: [] } }, { dispatch: true, supersede: [] }],
  [
    "an installation under way finishes first",
    { rivals: [{ id: "tgt_3", order_number: 3, status: "installing" }] },
    { wait: "previous_deployment" },
  ],
  [
    "a newer rival that waits is left alone",
    { rivals: [{ id: "tgt_7", order_number: 7, status: "queued" }] },
    { dispatch: true, supersede: [] },
  ],
  [
    "older ones up to staged are superseded",
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
    "a pending target of a later wave is not superseded",
    { rivals: [{ id: "tgt_3", order_number: 3, status: "pending" }] },
    { dispatch: true, supersede: [] },
  ],
];
for (const [name, changes, decision] of TABLE) test(`dispatch: ${name}`, () => assert.deepEqual(decide(facts(changes)), decision));

test("whatever the rivals, nothing that a robot is installing is superseded or overtaken", () => {
  const rival = fc
    .record({ order_number: fc.integer({ min: 1, max: 9 }), status: fc.constantFrom<TargetStatus>(...TARGET_STATUSES) })
    // An id that says the opposite: it must not matter.
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
