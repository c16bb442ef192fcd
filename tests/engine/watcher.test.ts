import assert from "node:assert/strict";
import { test } from "node:test";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkCounters, checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TERMINAL = ["applied", "failed", "rolled_back", "cancelled"];
const ROBOTS = 300;

/** A simple client of one route: polls every 2 s until the first terminal status, without targets, counters or paging. */
async function watch(
  plane: Harness,
  token: string,
  deployment_id: string,
  before_poll: () => Promise<void>,
): Promise<{ status: string; polls: number; stopped_at: Date }> {
  for (let polls = 1; ; polls += 1) {
    await before_poll();
    const response = await fetch(`${plane.url}/api/deployments/${deployment_id}/events`, { headers: { authorization: `Bearer ${token}` } });
    const { items } = (await response.json()) as { items: { status: string }[] };
    const end = items.find(({ status }) => TERMINAL.includes(status));
    if (end !== undefined) return { status: end.status, polls, stopped_at: plane.clock.now() };
    assert.ok(polls < 1_000, "the watcher never stops");
    await plane.advance({ seconds: 2 });
  }
}

const WAYS: [name: string, slow_one: "applies" | "rolls back", end: string][] = [
  ["one of them slow", "applies", "applied"],
  ["one of them slow and unhealthy", "rolls back", "failed"],
];
for (const [name, slow_one, end] of WAYS) {
  test(`a client that polls a deployment to ${ROBOTS} robots (${name}) stops when it ends as ${end}`, { timeout: 240_000 }, async () => {
    await using plane = await startPlane({ at: AT });
    const fleet_id = await plane.fleet();
    const robots = await plane.enrollRobots(ROBOTS, { fleet_id });
    await plane.deploy(await plane.release(), { fleet_id });
    await plane.settle();
    const slow = robots[137];
    assert.ok(slow !== undefined);
    const release = await plane.release();
    slow.behave(
      {
        step_ms: { downloading: 31_000, verifying: 30_000 },
        ...(slow_one === "applies" ? {} : { failure: { at: "verifying", reason: "crash_loop" } }),
      },
      release.id,
    );
    const { id } = await plane.deploy(release, { fleet_id });
    let open_before = ROBOTS;
    const seen = await watch(plane, plane.default_org.admin_token, id, async () => {
      const { counts, status } = await plane.deployment(id);
      await checkCounters(plane);
      const ended = counts.applied + counts.failed + counts.rolled_back + counts.cancelled;
      // The deployment has ended exactly when the targets of all robots have ended.

      assert.equal(TERMINAL.includes(status), ended === ROBOTS);
      open_before = ROBOTS - ended;
    });
    const { status, finished_at, counts } = await plane.deployment(id);
    assert.deepEqual([seen.status, status, open_before], [end, end, 0]);
    assert.equal(finished_at, "2030-01-01T00:01:01.000Z");
    assert.equal(seen.stopped_at.toISOString(), "2030-01-01T00:01:02.000Z", "the first poll after the end");
    assert.equal(counts.applied, slow_one === "applies" ? ROBOTS : ROBOTS - 1);
    await checkEngine(plane, { ended: true });
  });
}
