import type { Clock } from "@roamfleet/clock";
import { yieldToEventLoop } from "../kernel/yield.ts";
import type { LiveSession } from "./live-session.ts";

/** A link counts as half open when nothing arrived for more than this many heartbeat intervals. */
const MISSED_HEARTBEATS_MAX = 3;
/** Links that are closed in one turn of the event loop, so that thousands do not delay other links and requests. */
const CLOSED_PER_TURN = 100;

/**
 * Closes half-open links. A paused link counts as heard, because the server itself does not read it. This takes several turns of the event
 * loop, in which sessions may come and go. So `sessions` must allow changes while it is read, as the values of a `Map` do.
 */
export async function closeHalfOpen(
  sessions: Iterable<Pick<LiveSession, "paused" | "heard_at" | "terminate">>,
  clock: Clock,
  heartbeat_ms: number,
): Promise<void> {
  let closed = 0;
  for (const session of sessions) {
    const now = clock.monotonic();
    if (session.paused) session.heard_at = now;
    else if (now - session.heard_at > heartbeat_ms * MISSED_HEARTBEATS_MAX) {
      session.terminate("no heartbeat received");
      closed += 1;
      if (closed % CLOSED_PER_TURN === 0) await yieldToEventLoop();
    }
  }
}
