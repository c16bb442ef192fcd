import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { root } from "../bin/launch.mjs";
import { promisesConcerned } from "./promises/changed.ts";
import { type Kept, renderPage } from "./promises/page.ts";
import { PROMISES } from "./promises/promises.ts";
import { proofsInTests } from "./promises/proofs.ts";

const reference = (name: string): string => readFileSync(path.join(root, "docs", "reference", name), "utf8");

test("every promise has a test that proves it, and every proof names a promise that exists", () => {
  const proven = proofsInTests().map(({ promise }) => promise);
  assert.deepEqual(
    [...new Set(proven)].toSorted((a, b) => a - b),
    PROMISES.map(({ number }) => number),
  );
});

test("the documentation page of promises matches the stored results, and every promise is proven", () => {
  const page = reference("promises.md");
  assert.equal(page, renderPage(JSON.parse(reference("promises.json")) as Kept));
  assert.ok(!page.includes("not proven"), "run: npm run promises");
});

test("finds the promises whose tests use a changed file, directly or in a program that they start", () => {
  assert.deepEqual(promisesConcerned(["docs/reference/promises.md", "packages/dashboard/src/main.tsx"]), []);
  assert.deepEqual(promisesConcerned(["tests/promises/20-simulated-links.test.ts"]), [20]);
  assert.deepEqual(promisesConcerned(["tools/simulate/schedule.ts"]), [20]);
  assert.ok(promisesConcerned(["packages/server/migrations/0001_initial.sql"]).includes(20));
  const of_agent = promisesConcerned(["packages/agent/src/disk/lock.ts"]);
  assert.ok(of_agent.includes(21) && !of_agent.includes(10), of_agent.join(" "));
  const of_protocol = promisesConcerned(["packages/protocol/src/paths.ts"]);
  assert.ok(of_protocol.length > of_agent.length, of_protocol.join(" "));
});
