import assert from "node:assert/strict";
import { test } from "node:test";
import { CLOSE } from "@roamfleet/protocol/paths";
import { explainEnding, explainRefusal } from "./ending.ts";

test("each close code of a stream has a distinct title", () => {
  const titles = Object.values(CLOSE).map((code) => explainEnding({ code, reason: "", was_open: true }, "the shell")?.title);
  assert.equal(new Set(titles).size, Object.values(CLOSE).length);
  assert.ok(!titles.includes("Ended by the server"));
  assert.equal(explainEnding({ code: 1000, reason: "exit 0", was_open: true }, "the shell"), undefined);
});

test("suggests reopening a closed stream only after a temporary cause", () => {
  const again = (code: number) => explainEnding({ code, reason: "", was_open: true }, "it")?.again;
  assert.equal(again(CLOSE.agent_offline), "offline");
  assert.equal(again(CLOSE.draining), "later");
  assert.equal(again(CLOSE.robot_removed), "never");
  assert.equal(again(CLOSE.role_lost), "never");
});

test("formats the robot's reason for closing a stream as a sentence", () => {
  const text = explainEnding({ code: CLOSE.ended_by_robot, reason: "disabled on the robot", was_open: true }, "it")?.text;
  assert.equal(text, "Disabled on the robot.");
});

test("explains that an agent is too old for a stream and suggests no retry", () => {
  const reason = "the robot's agent is too old for streams";
  const why = explainEnding({ code: CLOSE.ended_by_robot, reason, was_open: true }, "it");
  assert.equal(why?.title, "Agent too old");
  assert.equal(why?.again, "never");
});

test("shows the server's message for a refused stream, except for status 426", () => {
  assert.equal(explainRefusal(426, "this path requires a WebSocket upgrade"), undefined);
  assert.equal(explainRefusal(403, "operator is needed")?.text, "Operator is needed.");
  assert.equal(explainRefusal(403, "")?.again, "never");
});
