import assert from "node:assert/strict";
import { test } from "node:test";
import { EventReader } from "../harness/event-reader.ts";
import { startPlane } from "../harness/index.ts";
import { oneNodeOnly } from "../harness/nodes.ts";

const LIMIT = { timeout: 300_000, skip: oneNodeOnly("only the node of a reader knows what it missed") };

test("an event stream sends a heartbeat with a new position within 4 s, even without events", LIMIT, async () => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z" });
  const org = plane.default_org;
  const [seen, other] = [await org.fleet(), await org.fleet()];
  const headers = { authorization: `Bearer ${await org.token({ role: "viewer", scopes: [{ fleet_id: seen }] })}` };
  const open = (last_event_id?: string) => EventReader.open(plane.url, headers, { last_event_id });
  const first = await open();
  const at_first = first.last_event_id;
  await org.api.updateFleet({ params: { id: other }, body: { name: "Elsewhere" } });
  await plane.settle();
  const before = first.beats;
  await plane.advance({ seconds: 4 });
  await plane.until("a heartbeat", () => first.beats > before);
  assert.notEqual(first.last_event_id, at_first);
  assert.deepEqual(first.changes, []);
  first.close();
  await first.ended;

  await plane.advance({ seconds: 60 });
  const second = await open(first.last_event_id);
  assert.deepEqual(second.heard[0]?.data, { resumed: true });
  second.close();
  await second.ended;

  await plane.advance({ seconds: 180 });
  using third = await open(second.last_event_id);
  await third.until("that it lost something", ({ event }) => event === "lost");
});
