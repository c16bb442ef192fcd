import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { REFERENCE_FILE, writeReference } from "../reference.ts";

test("docs/reference/commands.md is up to date; otherwise run packages/cli/reference.ts", async () => {
  assert.equal(await readFile(REFERENCE_FILE, "utf8"), await writeReference());
});
