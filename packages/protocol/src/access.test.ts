import assert from "node:assert/strict";
import { test } from "node:test";
import { access, accessOf, OBJECT_FIELDS, type ObjectField, streamAccess } from "./access.ts";
import { paths, type RouteName, streamPaths } from "./paths.ts";
import { type Route, routes } from "./routes/index.ts";
import { ROLES, roleAtLeast, type Role } from "./states.ts";

const all = Object.values(routes) as Route[];
const isRole = (value: string): value is Role => (ROLES as readonly string[]).includes(value);
const shown = ({ in: place, field }: ObjectField): string => `${place}.${field}`;

test("every API path has exactly one row in the access table", () => {
  assert.deepEqual(Object.keys(access).toSorted(), Object.keys(paths).toSorted());
  assert.deepEqual(Object.keys(streamAccess).toSorted(), Object.keys(streamPaths).toSorted());
});

test("the access table checks exactly the request fields that reference scoped objects", () => {
  for (const route of all) {
    const row = accessOf(route.name);
    if (!isRole(row.access)) continue;
    const named = (["query", "body"] as const).flatMap((place) =>
      Object.keys(route[place]?.properties ?? {})
        .filter((field) => field in OBJECT_FIELDS)
        .map((field) => `${place}.${field}`),
    );
    // Rows for the whole organization are not limited to a site or fleet.
    const in_path = row.outside === "not_found" && route.path.includes("{id}") ? ["params.id"] : [];
    const looked_at = row.outside === "forbidden" || row.outside === "allowed" ? [] : row.objects.map(shown).toSorted();
    assert.deepEqual(looked_at, [...in_path, ...named].toSorted(), route.name);
  }
});

test("the access table requires no higher role for an object than for its route", () => {
  for (const name of Object.keys(access) as RouteName[]) {
    const row = accessOf(name);
    for (const { role } of row.objects) assert.ok(isRole(row.access) && roleAtLeast(row.access, role), name);
    if (row.outside === "not_found")
      assert.ok(
        row.objects.some(({ role }) => role === row.access),
        `${name} checks no object with the route's own role`,
      );
  }
});

/** Objects that operators delete: the deletion only ends what an operator began. An operator may also replace a floor plan by an empty one. */
const ENDED_BY_OPERATORS = ["endUpload", "deleteAlertMute", "deleteFloorPlan"];

/** Viewers may keep their own views. */
const OWN_OF_VIEWERS = ["createView", "updateView", "deleteView"];

test("viewers cannot change data or download artifacts, and deletions require an admin", () => {
  for (const { name, path, method, access: role } of all) {
    if (!isRole(role) || path === "/api/auth/session" || ["createStreamTicket", ...OWN_OF_VIEWERS].includes(name)) continue;
    if (method === "DELETE") assert.ok(roleAtLeast(role, ENDED_BY_OPERATORS.includes(name) ? "operator" : "admin"), name);
    else if (method !== "GET" && (method as string) !== "HEAD") assert.ok(roleAtLeast(role, "operator"), name);
  }
  assert.equal(access.getReleaseArtifact.access, "operator");
});
