import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import type { Desired } from "@roamfleet/protocol/link";
import { pino } from "pino";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { DesiredStore, parseDesired } from "./desired-store.ts";

const log = pino({ level: "silent" });
const desiredOf = (generation: number): Desired => ({ type: "desired", generation, apps: {}, configs: {} });

function open(state_directory: string): { store: DesiredStore; clock: SimulatedClock } {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  return { store: new DesiredStore({ state_directory, clock, log }), clock };
}

test("writes a desired state to disk before it is applied", (t) => {
  const directory = temporaryDirectory(t);
  const { store } = open(directory);
  const seen: [boolean, number][] = [];
  for (const generation of [3, 2, 3, 4]) {
    store.take(desiredOf(generation), (fresh) =>
      seen.push([fresh, (JSON.parse(readFileSync(join(directory, "desired.json"), "utf8")) as Desired).generation]),
    );
  }
  assert.deepEqual(seen, [
    [true, 3],
    [false, 3],
    [false, 3],
    [true, 4],
  ]);
  assert.equal(open(directory).store.generation, 4);
});

test("does not apply a desired state until a retried write has stored it", async (t) => {
  const directory = temporaryDirectory(t);
  const { store, clock } = open(directory);
  mkdirSync(join(directory, "desired.json.tmp"));
  const seen: boolean[] = [];
  store.take(desiredOf(1), (fresh) => seen.push(fresh));
  await clock.advance({ seconds: 30 });
  assert.deepEqual([seen, store.generation], [[], 0]);
  rmdirSync(join(directory, "desired.json.tmp"));
  await clock.advance({ seconds: 11 });
  assert.deepEqual([seen, store.generation], [[true], 1]);
});

test("ignores a truncated or invalid desired-state file", (t) => {
  const directory = temporaryDirectory(t);
  for (const content of [
    "",
    '{"type":"desired","generation":4,"apps":{',
    "[]",
    '{"generation":-1,"apps":{},"configs":{}}',
    '{"generation":1,"apps":{"main":null},"configs":{}}',
  ]) {
    writeFileSync(join(directory, "desired.json"), content);
    const { store } = open(directory);
    assert.deepEqual([store.current, store.generation], [undefined, 0], content);
  }
});

test("ignores a desired state with a wrong checksum and logs a warning", (t) => {
  const directory = temporaryDirectory(t);
  open(directory).store.take(desiredOf(41), () => {});
  const path = join(directory, "desired.json");
  writeFileSync(path, readFileSync(path, "utf8").replace("41", "61"));
  const lines: string[] = [];
  const store = new DesiredStore({
    state_directory: directory,
    clock: new SimulatedClock({ at: "2030-01-01T00:00:00Z" }),
    log: pino({}, { write: (line: string) => void lines.push(line) }),
  });
  assert.equal(store.generation, 0);
  assert.match(lines.join(""), /is damaged/);
});

test("rejects a desired state with too many apps or configs", () => {
  const many = (count: number): Record<string, object> =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`name-${i}`, { release: null }]));
  assert.notEqual(parseDesired({ ...desiredOf(1), apps: many(256), configs: many(1_024) }), undefined);
  assert.equal(parseDesired({ ...desiredOf(1), apps: many(257) }), undefined);
  assert.equal(parseDesired({ ...desiredOf(1), configs: many(1_025) }), undefined);
});
