import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { REFERENCE_FILE, writeReference } from "../reference.ts";
import { EXIT_MEANINGS } from "./exit-codes.ts";

test("docs/reference/commands.md is up to date; otherwise run packages/cli/reference.ts", async () => {
  assert.equal(await readFile(REFERENCE_FILE, "utf8"), await writeReference());
});

test("docs/reference/errors.md explains every exit code", async () => {
  const page = await readFile(path.join(path.dirname(REFERENCE_FILE), "errors.md"), "utf8");
  for (const code of Object.keys(EXIT_MEANINGS)) assert.ok(page.includes(`| ${code} |`), code);
});
