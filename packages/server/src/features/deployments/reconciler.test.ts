import assert from "node:assert/strict";
import { test } from "node:test";
import { Postponed, processItems } from "./reconciler.ts";

const START = Date.parse("2030-01-01T00:00:00Z");
const at = (seconds: number): Date => new Date(START + seconds * 1_000);

/** Runs `processItems` with a simulated clock and log. Items that `isBad` accepts fail. */
function rig(isBad: (id: string) => boolean) {
  const it = { postponed: new Postponed(), seconds: 0, done: [] as string[], logged: [] as { id?: string; work?: string }[] };
  const context = { clock: { now: () => at(it.seconds) }, log: { error: (line: object) => it.logged.push(line) } };
  type Item = { org_id: string; id: string; deployment_id?: string; work?: string };
  const run = (batches: readonly (readonly Item[])[]) =>
    processItems(context as unknown as Parameters<typeof processItems>[0], it.postponed, batches, (items) => {
      if (items.some(({ id }) => isBad(id))) return Promise.reject(new Error("planned"));
      it.done.push(...items.map(({ id }) => id));
      return Promise.resolve();
    });
  return { it, run };
}

test("postpones a failing item with exponential backoff from 5 s up to 5 minutes", () => {
  const postponed = new Postponed();
  let seconds = 0;
  const waits = Array.from({ length: 9 }, () => {
    postponed.failed("one", at(seconds));
    const from = seconds;
    while (postponed.ids(at(seconds)).includes("one")) seconds += 1;
    return seconds - from;
  });
  assert.deepEqual(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
  postponed.succeeded("one");
  postponed.failed("one", at(seconds));
  assert.deepEqual(postponed.ids(at(seconds + 5)), []);
});

test("logs failures once a minute for each kind of work, and processes all other items", async () => {
  const { it, run } = rig((id) => id !== "good");
  const items = ["bad", "good", "worse"].map((id) => ({ org_id: "org", id, work: id === "worse" ? "other" : "work" }));
  await run(items.map((item) => [item]));
  it.seconds = 59;
  await run(items.map((item) => [item]));
  assert.deepEqual([it.done.length, it.logged.map(({ work }) => work)], [2, ["work", "other"]]);
  it.seconds = 60;
  await run(items.map((item) => [item]));
  assert.equal(it.logged.length, 4);
});

test("postpones a failing target alone, or its deployment if all its targets fail", async () => {
  const { it, run } = rig((id) => id.startsWith("tgt_bad"));
  const target = (deployment_id: string, id: string) => ({ org_id: "org", deployment_id, id });
  const some = [target("dep_some", "tgt_1"), target("dep_some", "tgt_bad"), target("dep_some", "tgt_2")];
  await run([some, [target("dep_none", "tgt_bad_1"), target("dep_none", "tgt_bad_2")]]);
  assert.deepEqual(it.done.toSorted(), ["tgt_1", "tgt_2"]);
  assert.deepEqual(it.postponed.ids(at(0)).toSorted(), ["dep_none", "tgt_bad"]);
});

test("postpones only failing targets, even if many of them fail in one run", async () => {
  const { it, run } = rig((id) => id.startsWith("tgt_bad"));
  // Every second target fails, including those in the part of the batch that the run does not divide further.
  const targets = Array.from({ length: 100 }, (_, n) => ({
    org_id: "org",
    deployment_id: "dep",
    id: `tgt_${n % 2 === 0 ? "bad" : "good"}_${n}`,
  }));
  for (let runs = 0; runs < 3; runs += 1) {
    const skip = it.postponed.ids(at(0));
    const claimed = targets.filter(({ id }) => !skip.includes(id) && !it.done.includes(id));
    await run([claimed]);
  }
  assert.equal(it.done.length, 50);
  assert.deepEqual(it.postponed.ids(at(0)).toSorted(), targets.flatMap(({ id }) => (id.startsWith("tgt_bad") ? [id] : [])).toSorted());
});
