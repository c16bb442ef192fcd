import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { type Hello, SendQueue } from "@roamfleet/protocol/link";
import type { WebSocket } from "ws";
import { LiveSession, sendOptions } from "./live-session.ts";
import { FrameRateLimiter, WorkBudget } from "./read-limits.ts";
import { ReceiveBudget } from "./receive-budget.ts";

test("counts a robot's WebSocket pings toward its rate limit until the link is terminated", () => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const socket = { terminate: () => {}, pause: () => {}, resume: () => {} } as unknown as WebSocket;
  const queue = new SendQueue({ bufferedAmount: 0, sendFrame: () => {} }, sendOptions(clock));
  const hello = { robot_id: "rbt_1" } as Hello;
  const session = new LiveSession(
    socket,
    queue,
    { session_id: "sess_1", org_id: "org_1", hello, ip: "192.0.2.1", clock },
    {
      budget: new WorkBudget(),
      memory: new ReceiveBudget(),
      pace: new FrameRateLimiter(clock),
      message: async () => {},
      failed: () => {},
    },
  );
  session.heardControl();
  const tokens = session.frames?.tokens;
  session.heardControl();
  assert.equal(session.frames?.tokens, (tokens ?? 0) - 1);
  session.terminate("the robot does not read the server's messages");
  session.heardControl();
  assert.equal(session.frames?.tokens, (tokens ?? 0) - 1);
});
