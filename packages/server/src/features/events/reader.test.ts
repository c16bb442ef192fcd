import assert from "node:assert/strict";
import { test } from "node:test";
import type { Role } from "@robofleet/protocol";
import type { Caller, Grant, Scopes } from "../../kernel/caller.ts";
import { WHOLE_ORG } from "../../kernel/caller.ts";
import type { AnnouncedChange } from "./announce.ts";
import { placedAsTold, seenBy } from "./reach.ts";
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

/** What a reader has been given so far, by event. */
function eventsOf(reader: Reader): { event: string; id: string; data: unknown }[] {
  const text = String(reader.read() ?? "");
  return text.split("\n\n").flatMap((block) => {
    const field = (name: string): string => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? "";
    return field("event") === "" ? [] : [{ event: field("event"), id: field("id"), data: JSON.parse(field("data")) as unknown }];
  });
}
const idsOf = (reader: Reader): unknown[] =>
  eventsOf(reader).map(({ event, data }) => (event === "change" ? (data as { id: string }).id : event));

test("a reader has what comes, in order; what came before it only where it goes on", () => {
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

test("who does not read holds little, and is told once that something is lost; then goes on with what is new", () => {
  const ring = new Ring("boot", 1_000);
  const reader = new Reader(ring, { caller: viewer, held });
  reader.begin({ after: 0, resumed: false, lost: false });
  for (let id = 1; id <= 50_000; id += 1) {
    ring.append({ change: change(id) });
    reader.wake();
  }
  assert.ok(reader.readableLength < 64 * 1024, `${reader.readableLength} bytes are held`);
  const seen: unknown[] = [];
  for (let more = idsOf(reader); more.length > 0; more = idsOf(reader)) seen.push(...more);
  assert.deepEqual(seen, ["ready", "lost"]);
  ring.append({ change: change(1_000_000) });
  reader.wake();
  assert.deepEqual(idsOf(reader), ["rel_1000000"]);
});

test("a reader that is ended before it could begin is told why, and nothing else", () => {
  const reader = new Reader(new Ring("boot", 100), { caller: viewer, held });
  reader.finish("draining", "the server is stopping");
  reader.begin({ after: 0, resumed: false, lost: false });
  assert.deepEqual(eventsOf(reader), [{ event: "end", id: "", data: { code: "draining", message: "the server is stopping" } }]);
  assert.equal(reader.errored, null);
});

test("somebody whose reach changes is told to read again", () => {
  const ring = new Ring("boot", 100);
  const reader = new Reader(ring, { caller: viewer, held });
  reader.begin({ after: 0, resumed: false, lost: false });
  reader.becomes(callerOf("viewer", []));
  assert.deepEqual(idsOf(reader), ["ready"]);
  reader.becomes(callerOf("viewer", [{ fleet_id: "flt_1" }]));
  assert.deepEqual(idsOf(reader), ["lost"]);
});

test("each kind goes to those who may read it: people and keys to admins of the whole org, places to who reaches them", () => {
  const at = (fleet_id: string) => ({ site_id: "sit_1", fleet_id });
  const robot = placedAsTold({ kind: "robot", id: "rob_1", change: "updated", places: [at("flt_1")] });
  const token = placedAsTold({ kind: "token", id: "tok_1", change: "created" });
  const release = placedAsTold({ kind: "release", id: "rel_1", change: "created" });
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

test("a robot that is moved over an edge is told on both sides, on each without the other", () => {
  const [from, to] = [
    { site_id: "sit_1", fleet_id: "flt_1" },
    { site_id: "sit_2", fleet_id: "flt_2" },
  ];
  const told: AnnouncedChange = {
    kind: "robot",
    id: "rob_1",
    change: "moved",
    ...to,
    from_fleet_id: "flt_1",
    from_site_id: "sit_1",
    places: [to, from],
  };
  const seen = (scopes: Scopes) => {
    const one = seenBy(callerOf("viewer", scopes), placedAsTold(told));
    return one === undefined ? undefined : [one.fleet_id, one.site_id, one.from_fleet_id, one.from_site_id];
  };
  assert.deepEqual(seen([]), ["flt_2", "sit_2", "flt_1", "sit_1"]);
  assert.deepEqual(seen([{ fleet_id: "flt_1" }, { fleet_id: "flt_2" }]), ["flt_2", "sit_2", "flt_1", "sit_1"]);
  assert.deepEqual(seen([{ fleet_id: "flt_1" }]), ["flt_1", "sit_1", undefined, undefined]);
  assert.deepEqual(seen([{ site_id: "sit_2" }]), ["flt_2", "sit_2", undefined, undefined]);
  assert.equal(seen([{ fleet_id: "flt_3" }]), undefined);
});
