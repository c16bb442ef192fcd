import assert from "node:assert/strict";
import { test } from "node:test";
import { provePromise } from "../harness/promise.ts";
import { until } from "@roamfleet/clock/testing";
import { FaultRig, skipUnlessFull } from "./fault-rig.ts";
import { underFault } from "./under-fault.ts";

const FROZEN_MS = 60_000;

test(
  "other nodes take over the robots of a frozen node, and each robot has one owner afterwards",
  { skip: skipUnlessFull(), timeout: 400_000 },
  async (t) => {
    await using rig = await FaultRig.start();
    let frozen_at = 0;
    const figures = await underFault(t, rig, {
      begin: (node) => {
        frozen_at = performance.now();
        node.freeze();
      },
      end: async (node) => {
        await until("the others to declare it dead", () => rig.isOver(node));
        await until("the minute to pass", () => performance.now() > frozen_at + FROZEN_MS, { deadline_ms: 2 * FROZEN_MS });
        node.thaw();
        await until("the node to be ready", () => node.ready());
      },
    });
    const robots = await rig.online();
    await until("each robot to have one owner", async () => (await rig.links()) === robots);
    assert.equal(await rig.online(), robots);
    provePromise(t, 16, `one of three nodes frozen for ${FROZEN_MS / 1_000} s under load: ${figures}`);
  },
);
