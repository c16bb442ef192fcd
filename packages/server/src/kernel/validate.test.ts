import assert from "node:assert/strict";
import { test } from "node:test";
import { type RouteSpec, routes } from "@roamfleet/protocol/routes";
import { Fault } from "./fault.ts";
import { validator } from "./validate.ts";

test("the request schemas of every route compile", () => {
  for (const [name, route] of Object.entries<RouteSpec>(routes)) {
    const check = validator(route);
    for (const part of ["query", "body"] as const)
      try {
        check[part]({});
      } catch (error) {
        assert.ok(error instanceof Fault, `${name}: ${String(error)}`);
      }
  }
});
