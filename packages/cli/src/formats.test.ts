import assert from "node:assert/strict";
import { test } from "node:test";
import { scanFormat } from "./formats.ts";

test("determines the output format of errors from unparsed arguments", () => {
  assert.equal(scanFormat(["robots", "list"]), undefined);
  assert.equal(scanFormat(["robots", "list", "--json"]), "json");
  assert.equal(scanFormat(["-o", "yaml", "robots"]), "yaml");
  assert.equal(scanFormat(["-ojson"]), "json");
  assert.equal(scanFormat(["--output=wide"]), "wide");
  assert.equal(scanFormat(["-o", "xml"]), undefined);
  assert.equal(scanFormat(["configs", "set", "k", "--", "--json"]), undefined);
});
