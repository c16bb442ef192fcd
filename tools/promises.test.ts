import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { root } from "../bin/launch.mjs";
import { type Kept, renderPage } from "./promises/page.ts";
import { PROMISES } from "./promises/promises.ts";
import { proofsInTests } from "./promises/proofs.ts";

const reference = (name: string): string => readFileSync(path.join(root, "docs", "reference", name), "utf8");

test("every promise has a test that proves it, and every proof names an existing promise", () => {
  const proven = proofsInTests().map(({ promise }) => promise);
  assert.deepEqual(
    [...new Set(proven)].toSorted((a, b) => a - b),
    PROMISES.map(({ number }) => number),
  );
});

test("the page of promises matches the stored results, and every promise is proven", () => {
  const page = reference("promises.md");
  assert.equal(page, renderPage(JSON.parse(reference("promises.json")) as Kept));
  assert.ok(!page.includes("not proven"), "run: npm run promises");
});
