import assert from "node:assert/strict";
import { test } from "node:test";
import { readVerb } from "./palette-verb.ts";

test("splits the text of the palette into a verb and a name", () => {
  assert.deepEqual(readVerb("logs cart-1"), { verb: "logs", name: "cart-1" });
  assert.deepEqual(readVerb(" Ack  robot offline "), { verb: "acknowledge", name: "robot offline" });
  assert.deepEqual(readVerb("metrics cart-1"), { verb: "metrics", name: "cart-1" });
  assert.deepEqual(readVerb("dep"), { verb: "deploy", name: "" });
  assert.deepEqual(readVerb("de"), { verb: undefined, name: "de" });
  assert.deepEqual(readVerb("deployments"), { verb: undefined, name: "deployments" });
  assert.deepEqual(readVerb("cart 12"), { verb: undefined, name: "cart 12" });
});
