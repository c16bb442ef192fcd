import assert from "node:assert/strict";
import { test } from "node:test";
import { deployLine, rollbackLine, setLine, unsetLine } from "./rf-lines.ts";

const org = { namespace: "default", key: "speed", scope: "org", scope_id: null } as const;
const robot = { namespace: "nav", key: "max speed", scope: "robot", scope_id: "rob_1" } as const;

test("returns the rf commands for the actions of the page", () => {
  assert.equal(setLine(org, "1.5", false), "rf configs set speed 1.5");
  assert.equal(setLine(robot, '"a b"', false), `rf configs set 'max speed' '"a b"' --namespace nav --robot rob_1 --no-deploy`);
  assert.equal(setLine(org, "-3", false), "rf configs set speed -- -3");
  assert.equal(setLine(org, "x".repeat(201), false), "rf configs set speed --from-file value.json");
  assert.equal(unsetLine(robot), "rf configs unset 'max speed' --namespace nav --robot rob_1");
  assert.equal(rollbackLine(org, 3), "rf configs rollback speed --to 3");
  assert.equal(deployLine({ scope: "fleet", scope_id: "fleet_1" }, "nav"), "rf configs deploy --fleet fleet_1 --namespace nav --watch");
});

test("commands contain no secrets", () => {
  assert.equal(setLine(org, '"hunter2"', true), "rf configs set speed --secret");
});
