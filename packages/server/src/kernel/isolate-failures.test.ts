import assert from "node:assert/strict";
import { test } from "node:test";
import { retryBisected, isolateFailures } from "./isolate-failures.ts";

class Lost extends Error {}

/** Returns the processed items, the failures and the number of calls. Calls with any item of `bad` fail. */
async function run(items: number[], bad: ReadonlyMap<number, Error>) {
  const [done, failed]: [number[], string[]] = [[], []];
  let tries = 0;
  const work = async (some: readonly number[]): Promise<void> => {
    tries += 1;
    const [error] = some.flatMap((item) => bad.get(item) ?? []);
    if (error !== undefined) throw error;
    done.push(...some);
  };
  await retryBisected(items, work, {
    affectsAll: (error) => error instanceof Lost,
    failed: (some, error) => failed.push(`${some.join(",")}: ${(error as Error).message}`),
  });
  return { done, failed, tries };
}

const numbers = Array.from({ length: 16 }, (_, n) => n);

test("processes all items in one call if none fails", async () => {
  assert.deepEqual(await run(numbers, new Map()), { done: numbers, failed: [], tries: 1 });
});

test("fails only the items that cause the error, and processes the others", async () => {
  const bad = new Map([3, 12].map((n) => [n, new Error(`not ${n}`)]));
  const { done, failed } = await run(numbers, bad);
  assert.deepEqual(failed, ["3: not 3", "12: not 12"]);
  assert.deepEqual(
    done,
    numbers.filter((n) => !bad.has(n)),
  );
});

test("fails the whole batch without bisecting it if the error affects all items", async () => {
  assert.deepEqual(await run([1, 2, 3, 4], new Map([[2, new Lost("lost")]])), { done: [], failed: ["1,2,3,4: lost"], tries: 1 });
});

test("processes all items that can be processed, and returns the others with the first error", async () => {
  const done: number[] = [];
  const failures = await isolateFailures(
    numbers,
    () => false,
    async (some) => {
      if (some.some((n) => n % 5 === 0)) throw new Error(`not ${some.join()}`);
      done.push(...some);
    },
  );
  assert.deepEqual([failures?.failed, done.length], [[0, 5, 10, 15], 12]);
});

test("stops bisecting a batch when every item fails", async () => {
  let tries = 0;
  const failures = await isolateFailures(
    Array.from({ length: 1_000 }, (_, n) => n),
    () => false,
    () => Promise.reject(new Error(`try ${(tries += 1)}`)),
  );
  assert.ok(failures !== undefined);
  assert.deepEqual([failures.failed.length, (failures.error as Error).message], [1_000, "try 10"]);
  assert.ok(tries < 60, `${tries} tries`);
});

test("rejects a batch on an outage, without further attempts", async () => {
  let tries = 0;
  const lost = new Lost("lost");
  const work = async (some: readonly number[]): Promise<void> => {
    tries += 1;
    throw some.length === 16 ? new Error("bad") : lost;
  };
  await assert.rejects(
    isolateFailures(numbers, (error) => error === lost, work),
    lost,
  );
  assert.equal(tries, 2);
});
