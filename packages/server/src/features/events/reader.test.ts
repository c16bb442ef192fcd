import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import type { Role } from "@roamfleet/protocol";
import type { Caller, Grant, Scopes } from "../../kernel/caller.ts";
import { WHOLE_ORG } from "../../kernel/caller.ts";
import type { AnnouncedChange } from "./announce.ts";
import { BURST_CHANGES_MAX, Coalescer, SUMMARY_WINDOW_MS } from "./coalesce.ts";
import { placedByPublisher, seenBy } from "./reach.ts";
import { Reader } from "./reader.ts";
import { Ring } from "./ring.ts";

const callerOf = (role: Role, scopes: Scopes, more: readonly Grant[] = []): Caller => ({
  org_id: "org_a",
  role,
  grants: [{ role, scopes }, ...more],
  limit: [],
  actor: { type: "system", id: null, name: null },
  token_id: "tok_a",
  orgs: [],
});
const viewer = callerOf("viewer", []);
const held = { by: "token" as const, hash: Buffer.alloc(32) };
const change = (id: number, more: Partial<AnnouncedChange> = {}): AnnouncedChange => ({
  kind: "release",
  id: `rel_${id}`,
  change: "updated",
  ...more,
});

/** Returns the events that the reader has sent so far. */
function eventsOf(reader: Reader): { event: string; id: string; data: unknown }[] {
  const text = String(reader.read() ?? "");
  return text.split("\n\n").flatMap((block) => {
    const field = (name: string): string => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? "";
    return field("event") === "" ? [] : [{ event: field("event"), id: field("id"), data: JSON.parse(field("data")) as unknown }];
  });
}
const idsOf = (reader: Reader): unknown[] =>
  eventsOf(reader).map(({ event, data }) => (event === "change" ? (data as { id: string }).id : event));

test("a new subscriber gets later changes in order, and a resumed one also those that it missed", () => {
  const ring = new Ring("boot", 100);
  for (const id of [1, 2, 3]) ring.append({ change: change(id) });
  const fresh = new Reader(ring, { caller: viewer, held });
  fresh.begin({ after: ring.position, resumed: false, lost: false });
  const back = new Reader(ring, { caller: viewer, held });
  back.begin({ after: 1, resumed: true, lost: false });
  ring.append({ change: change(4) });
  for (const reader of [fresh, back]) reader.wake();
  assert.deepEqual(idsOf(fresh), ["ready", "rel_4"]);
  assert.deepEqual(idsOf(back), ["ready", "rel_2", "rel_3", "rel_4"]);
});

test("a subscriber that stops reading gets one `lost` event, and then new changes", () => {
  const ring = new Ring("boot", 1_000);
  const reader = new Reader(ring, { caller: viewer, held });
  reader.begin({ after: 0, resumed: false, lost: false });
  for (let id = 1; id <= 50_000; id += 1) {
    ring.append({ change: change(id) });
    reader.wake();
  }
  assert.ok(reader.readableLength < 64 * 1024, `${reader.readableLength} bytes are buffered`);
  const seen: unknown[] = [];
  for (let more = idsOf(reader); more.length > 0; more = idsOf(reader)) seen.push(...more);
  assert.deepEqual(seen, ["ready", "lost"]);
  ring.append({ change: change(1_000_000) });
  reader.wake();
  assert.deepEqual(idsOf(reader), ["rel_1000000"]);
});

/** Returns a started coalescing reader, its ring and its clock. */
function coalescing(size = 1_000, caller = viewer) {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const ring = new Ring("boot", size);
  const reader = new Reader(ring, { caller, held, coalescer: new Coalescer(clock) });
  reader.begin({ after: 0, resumed: false, lost: false });
  assert.deepEqual(idsOf(reader), ["ready"]);
  const append = (...changes: AnnouncedChange[]): void => {
    for (const one of changes) ring.append({ change: one });
    reader.wake();
  };
  return { clock, ring, reader, append };
}

test("coalesces the changes of a window into one event with the id of the newest change", async () => {
  const { clock, ring, reader, append } = coalescing();
  append(change(1, { places: [WHOLE_ORG] }));
  append(change(2));
  append(change(3, { status: "new" }), change(2, { status: "newer" }));
  assert.deepEqual(
    eventsOf(reader).map(({ event, id, data }) => [event, id, data]),
    [["changes", ring.idOf(1), { changes: [change(1)] }]],
  );
  await clock.advance({ milliseconds: SUMMARY_WINDOW_MS });
  assert.deepEqual(
    eventsOf(reader).map(({ event, id, data }) => [event, id, data]),
    [["changes", ring.idOf(4), { changes: [change(3, { status: "new" }), change(2, { status: "newer" })] }]],
  );
  reader.destroy();
  append(change(5));
  await clock.advance({ milliseconds: SUMMARY_WINDOW_MS });
});

test("a coalescing subscriber that stops reading gets a summary or a `lost` event when it reads again", async () => {
  for (const size of [1_000_000, 1_000]) {
    const { clock, reader, append } = coalescing(size);
    for (let round = 0; round < 400; round += 1) {
      append(...Array.from({ length: 500 }, (_, i) => change(i, { status: `round ${round}` })));
      await clock.advance({ milliseconds: SUMMARY_WINDOW_MS });
    }
    assert.ok(reader.readableLength < 64 * 1024, `${reader.readableLength} bytes are stored`);
    const events = [];
    for (let more = eventsOf(reader); more.length > 0; more = eventsOf(reader)) events.push(...more);
    await clock.advance({ milliseconds: SUMMARY_WINDOW_MS });
    events.push(...eventsOf(reader));
    assert.ok(size > 1_000 || events.some(({ event }) => event === "lost"));
    const newest = JSON.stringify(events.at(-1));
    assert.ok(newest.includes(`"count":500`) || newest.includes("lost"), newest);
  }
});

test("sends coalesced changes early if the ring buffer would otherwise overwrite them", () => {
  const size = 10 * BURST_CHANGES_MAX;
  const { reader, append } = coalescing(size);
  for (let id = 1; id <= 3 * size; id += 1) append(change(id));
  const events = eventsOf(reader);
  assert.ok(!events.some(({ event }) => event === "lost"));
  assert.ok(events.length > 3, `${events.length} events`);
});

test("sends heartbeats to a subscriber even during changes that it may not see", async () => {
  const { clock, reader, append } = coalescing(1_000, callerOf("viewer", [{ fleet_id: "flt_1" }]));
  append(change(1));
  for (let n = 0; n < 10; n += 1) {
    append({ kind: "token", id: `tok_${n}`, change: "created" });
    reader.beat();
    await clock.advance({ milliseconds: SUMMARY_WINDOW_MS });
  }
  assert.equal(eventsOf(reader).filter(({ event }) => event === "beat").length, 10);
});

test("a subscriber whose stream is ended before its first event gets only the reason", () => {
  const reader = new Reader(new Ring("boot", 100), { caller: viewer, held });
  reader.finish("draining", "the server is stopping");
  reader.begin({ after: 0, resumed: false, lost: false });
  assert.deepEqual(eventsOf(reader), [{ event: "end", id: "", data: { code: "draining", message: "the server is stopping" } }]);
  assert.equal(reader.errored, null);
});

test("sends a `lost` event to a subscriber whose permissions change", () => {
  const ring = new Ring("boot", 100);
  const reader = new Reader(ring, { caller: viewer, held });
  reader.begin({ after: 0, resumed: false, lost: false });
  reader.becomes(callerOf("viewer", []));
  assert.deepEqual(idsOf(reader), ["ready"]);
  reader.becomes(callerOf("viewer", [{ fleet_id: "flt_1" }]));
  assert.deepEqual(idsOf(reader), ["lost"]);
});

test("sends changes of users and tokens only to admins, and of objects only to callers that may see their site or fleet", () => {
  const at = (fleet_id: string) => ({ site_id: "sit_1", fleet_id });
  const robot = placedByPublisher({ kind: "robot", id: "rob_1", change: "updated", places: [at("flt_1")] });
  const token = placedByPublisher({ kind: "token", id: "tok_1", change: "created" });
  const release = placedByPublisher({ kind: "release", id: "rel_1", change: "created" });
  const nowhere = { change: { kind: "target", id: "tgt_1", change: "status", robot_id: "rob_2" } as const };
  const sees = (caller: Caller): boolean[] => [robot, token, release, nowhere].map((one) => seenBy(caller, one) !== undefined);
  assert.deepEqual(sees(callerOf("admin", [])), [true, true, true, true]);
  assert.deepEqual(sees(callerOf("operator", [])), [true, false, true, true]);
  assert.deepEqual(sees(callerOf("admin", [{ site_id: "sit_1" }])), [true, false, true, false]);
  assert.deepEqual(sees(callerOf("viewer", [{ fleet_id: "flt_1" }])), [true, false, true, false]);
  assert.deepEqual(sees(callerOf("viewer", [{ fleet_id: "flt_2" }])), [false, false, true, false]);
  assert.deepEqual(sees({ ...callerOf("admin", []), limit: [{ fleet_id: "flt_2" }] }), [false, false, true, false]);
  assert.deepEqual(WHOLE_ORG, { site_id: null, fleet_id: null });
});

test("sends a robot's move without the site and fleet that the caller may not see", () => {
  const [from, to] = [
    { site_id: "sit_1", fleet_id: "flt_1" },
    { site_id: "sit_2", fleet_id: "flt_2" },
  ];
  const moved: AnnouncedChange = {
    kind: "robot",
    id: "rob_1",
    change: "moved",
    ...to,
    from_fleet_id: "flt_1",
    from_site_id: "sit_1",
    places: [to, from],
  };
  const seen = (scopes: Scopes) => {
    const one = seenBy(callerOf("viewer", scopes), placedByPublisher(moved));
    return one === undefined ? undefined : [one.fleet_id, one.site_id, one.from_fleet_id, one.from_site_id];
  };
  assert.deepEqual(seen([]), ["flt_2", "sit_2", "flt_1", "sit_1"]);
  assert.deepEqual(seen([{ fleet_id: "flt_1" }, { fleet_id: "flt_2" }]), ["flt_2", "sit_2", "flt_1", "sit_1"]);
  assert.deepEqual(seen([{ fleet_id: "flt_1" }]), ["flt_1", "sit_1", undefined, undefined]);
  assert.deepEqual(seen([{ site_id: "sit_2" }]), ["flt_2", "sit_2", undefined, undefined]);
  assert.equal(seen([{ fleet_id: "flt_3" }]), undefined);
});
