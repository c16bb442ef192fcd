import assert from "node:assert/strict";
import { test } from "node:test";
import { imageRelease, SlotMachine } from "../../packages/agent/src/testing/slot-machine.ts";
import { MACHINES_FULL } from "./virtual-machine.ts";

const LIMIT = { timeout: 300_000, skip: MACHINES_FULL ? false : "takes up to 30 s: npm run test:machines" };

/** Maximum number of points in one boot at which the agent is killed. It is higher than the number that an agent passes. */
const PLACES_MAX = 12;

for (const [behavior, status, slot, processes] of [
  ["good", "applied", "B", 2],
  ["offline", "rolled_back", "A", 3],
] as const)
  test(`an OS image deployment ends as ${status} when the agent is killed at any step`, LIMIT, async () => {
    let points = 0;
    for (let process = 1; process <= processes; process += 1)
      for (let place = 1; place <= PLACES_MAX; place += 1) {
        await using machine = await SlotMachine.create({ connect_ms: 100 });
        const target = machine.want(imageRelease("v1", behavior));
        machine.on({ process, place });
        const name = `process ${process}, place ${place}`;
        assert.equal((await machine.ended(target)).status, status, name);
        assert.deepEqual([machine.read("booted"), machine.read("primary")], [slot, slot], name);
        if (!machine.was_killed) break;
        points += 1;
      }
    assert.ok(points >= (status === "applied" ? 6 : 8), `only ${points} points`);
  });
