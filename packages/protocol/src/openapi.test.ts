import assert from "node:assert/strict";
import { test } from "node:test";
import { Type } from "typebox";
import { buildOpenapi } from "./openapi.ts";
import { type Route, routes } from "./routes/index.ts";
import { DataOf, IdParams, named } from "./routes/route.ts";
import { Maybe, Nullable, Shape } from "./schema.ts";

const all = routes as Record<string, Route>;
const api = buildOpenapi(all, "api", "1.2.3");

/** Statuses of an operation, as numbers. */
function statuses(path: string, method: string, document = api): number[] {
  const operation = document.paths[path]?.[method];
  assert.ok(operation !== undefined, path);
  return Object.keys(operation["responses"] as object).map(Number);
}

test("lists every route in exactly one of the two OpenAPI documents", () => {
  const agent = buildOpenapi(all, "agent", "1.2.3");
  const names = (document: typeof api) =>
    Object.values(document.paths).flatMap((path) => Object.values(path).map((operation) => operation["operationId"]));
  assert.deepEqual([...names(api), ...names(agent)].toSorted(), Object.keys(routes).toSorted());
  assert.ok(names(agent).includes("enrollRobot") && !names(api).includes("enrollRobot"));
  assert.equal(api.paths["/agent/enroll"], undefined);
});

test("the OpenAPI document lists no WebSocket streams", () => {
  assert.deepEqual(
    Object.keys(api.paths).filter((path) => path.endsWith("/ws") || path.includes("/ros/")),
    [],
  );
});

test("the OpenAPI documents have no unresolved reference and no unused component", () => {
  for (const document of [api, buildOpenapi(all, "agent", "1.2.3")]) {
    const text = JSON.stringify(document);
    const wanted = new Set([...text.matchAll(/"#\/components\/(schemas|responses)\/(\w+)"/g)].map(([, kind, name]) => `${kind}/${name}`));
    const present = Object.entries({ schemas: document.components.schemas, responses: document.components.responses }).flatMap(
      ([kind, parts]) => Object.keys(parts).map((name) => `${kind}/${name}`),
    );
    assert.deepEqual([...wanted].toSorted(), present.toSorted());
  }
});

test("turns a named schema into an OpenAPI component, even if nested", () => {
  const Part = named("TestPart", Shape({ size: Type.Integer() }));
  const Whole = named("TestWhole", Shape({ part: Nullable(Part), parts: Type.Array(Part), copy: Maybe(Shape({ size: Type.Integer() })) }));
  const route = { ...routes.getSite, responses: { 200: DataOf(Whole) } } as unknown as Route;
  const { paths, components } = buildOpenapi({ route }, "api", "1");
  const answer = paths[route.path]?.["get"] as { responses: { 200: { content: Record<string, { schema: unknown }> } } };
  assert.deepEqual(answer.responses[200].content["application/json"]?.schema, {
    type: "object",
    required: ["data"],
    properties: { data: { $ref: "#/components/schemas/TestWhole" } },
    additionalProperties: false,
  });
  const reference = { $ref: "#/components/schemas/TestPart" };
  assert.deepEqual(components.schemas["TestWhole"], {
    type: "object",
    required: ["part", "parts"],
    properties: {
      part: { anyOf: [reference, { type: "null" }] },
      parts: { type: "array", items: reference },
      copy: { type: "object", required: ["size"], properties: { size: { type: "integer" } }, additionalProperties: false },
    },
    additionalProperties: false,
  });
});

test("an OpenAPI operation lists exactly the errors that it can return", () => {
  assert.deepEqual(statuses("/api/robots/{id}", "get"), [200, 400, 401, 403, 404, 414, 429, 431, 500, 503]);
  assert.deepEqual(statuses("/api/sites", "post"), [201, 400, 401, 403, 408, 409, 413, 414, 415, 429, 431, 500, 503]);
  assert.deepEqual(statuses("/api/admin/orgs", "get"), [200, 400, 401, 403, 414, 429, 431, 500, 503]);
  assert.deepEqual(statuses("/healthz", "get"), [200, 400, 414, 431, 500]);
  assert.deepEqual(statuses("/readyz", "get"), [200, 400, 414, 431, 500, 503]);
  const agent = buildOpenapi(all, "agent", "1");
  assert.deepEqual(statuses("/agent/enroll", "post", agent), [200, 201, 400, 401, 403, 408, 413, 414, 415, 429, 431, 500, 503]);
  assert.deepEqual(statuses("/agent/artifacts/{sha256}", "get", agent), [200, 206, 400, 401, 403, 404, 414, 416, 429, 431, 500, 503]);
});

test("an OpenAPI operation lists the accepted credentials", () => {
  const security = (path: string, method: string) => api.paths[path]?.[method]?.["security"];
  const session = { session_cookie: [], csrf_token: [] };
  assert.deepEqual(security("/api/robots", "get"), [{ portal_token: [] }, { session_cookie: [] }]);
  assert.deepEqual(security("/api/sites", "post"), [{ portal_token: [] }, session]);
  assert.deepEqual(security("/api/auth/session", "post"), [{ portal_token: [] }]);
  assert.deepEqual(security("/api/auth/session", "delete"), [session]);
  assert.deepEqual(security("/docs", "get"), []);
  assert.deepEqual(security("/api/admin/orgs", "post"), [{ service_admin_token: [] }, { service_admin_header: [], portal_token: [] }, {}]);
  assert.equal(api.paths["/api/robots/{id}"]?.["delete"]?.["x-required-role"], "admin");
});

test("the OpenAPI document requires Idempotency-Key only for deployments and config deployments", () => {
  const required: string[] = [];
  for (const [path, operations] of Object.entries(api.paths)) {
    const parameters = (operations["post"]?.["parameters"] ?? []) as { name: string; required: boolean }[];
    const key = parameters.find(({ name }) => name === "Idempotency-Key");
    if (operations["post"] !== undefined) assert.ok(key !== undefined, path);
    if (key?.required === true) required.push(path);
  }
  assert.deepEqual(required.toSorted(), ["/api/configs/deployments", "/api/deployments"]);
});

test("documents field aliases and the field that is null in an idempotent replay", () => {
  const create = api.paths["/api/deployments"]?.["post"] as { requestBody: { description: string; "x-field-aliases": object } };
  assert.match(create.requestBody.description, /`release_tag` for `release`/);
  assert.deepEqual(create.requestBody["x-field-aliases"], { release_id: "release", release_tag: "release" });
  const keys = api.paths["/api/enrollment-keys"]?.["post"] as { responses: Record<string, { description: string }> };
  assert.match(keys.responses["201"]?.description ?? "", /null in `key`/);
});

test("the OpenAPI documents list all path parameters as required", () => {
  assert.equal(IdParams.required[0], "id");
  for (const document of [api, buildOpenapi(all, "agent", "1")]) {
    for (const [path, operations] of Object.entries(document.paths)) {
      const wanted = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      for (const operation of Object.values(operations)) {
        const parameters = (operation["parameters"] ?? []) as { name: string; in: string; required: boolean }[];
        const found = parameters.filter((parameter) => parameter.in === "path");
        assert.deepEqual(found.map(({ name }) => name).toSorted(), wanted.toSorted(), path);
        assert.ok(found.every((parameter) => parameter.required));
      }
    }
  }
});
