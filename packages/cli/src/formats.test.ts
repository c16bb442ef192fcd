import assert from "node:assert/strict";
import { test } from "node:test";
import { scanFormat } from "./formats.ts";

test("the format of an error is known before the words are parsed", () => {
  assert.equal(scanFormat(["robots", "list"]), undefined);
  assert.equal(scanFormat(["robots", "list", "--json"]), "json");
  assert.equal(scanFormat(["-o", "yaml", "robots"]), "yaml");
  assert.equal(scanFormat(["-ojson"]), "json");
  assert.equal(scanFormat(["--output=wide"]), "wide");
  assert.equal(scanFormat(["-o", "xml"]), undefined);
  assert.equal(scanFormat(["configs", "set", "k", "--", "--json"]), undefined);
});
