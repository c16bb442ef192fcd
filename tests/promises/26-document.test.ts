// Separate process: this test measures the memory of its process.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { type Route, routes } from "@roamfleet/protocol/routes";
import { makeThings, sampleRequest, type Things } from "../authorization/sample-requests.ts";
import { answerText } from "../harness/answer-text.ts";
import { ADMIN_TOKEN, startPlane } from "../harness/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { allowed, anyParameter, bent, type Known } from "../hostile/arbitraries.ts";

const LIMIT = { timeout: 1_800_000 };
const RUNS = promiseSize({ test: 12, full: 400 });
const SEED = 20_261_121;
const GROWTH_BYTES_MAX = 150 * 1024 * 1024;

/**
 * Returns the memory in use after a garbage collection. Other memory is not measured, because this process also generates the requests;
 * promise 9 covers a separate server.
 */
function heldBytes(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

interface Generated {
  path: string;
  query: Record<string, string>;
  body: unknown;
  headers: Record<string, string>;
}

const plane = await startPlane();
after(() => plane[Symbol.asyncDispose]());
const things = await makeThings(await plane.org(), plane.clock.now());
const strangers = await makeThings(await plane.org(), plane.clock.now());
const statuses = new Map<number, number>();
const all = (Object.values(routes) as Route[]).toSorted((a, b) => Number(a.method === "DELETE") - Number(b.method === "DELETE"));

const idsOf = ({ ids }: Things): string[] => Object.values(ids);
const known: Known = (field) =>
  field.endsWith("_id") || field === "id" || field === "release" ? [...idsOf(things), ...idsOf(strangers).slice(0, 3)] : [];

/** Generates requests of a route, both valid and invalid by the document. */
function requests(route: Route): fc.Arbitrary<Generated> {
  const sample = sampleRequest({ ...route, body: undefined } as unknown as Route, things);
  const path = fc.oneof(
    { arbitrary: fc.constant(sample.path), weight: 4 },
    { arbitrary: anyParameter.map((text) => route.path.replace(/\{\w+\}/g, encodeURIComponent(text))), weight: 1 },
  );
  const query = fc.oneof(
    fc.constant({}),
    route.query === undefined ? fc.constant({}) : allowed(route.query, known),
    fc.dictionary(fc.oneof(fc.constantFrom(...Object.keys(route.query?.properties ?? { limit: 1 })), anyParameter), anyParameter, {
      maxKeys: 3,
    }),
  );
  const body =
    route.body === undefined
      ? fc.oneof(fc.constant(undefined), fc.jsonValue())
      : fc.oneof(allowed(route.body, known), bent(route.body, known));
  const headers = fc.record(
    {
      "idempotency-key": fc.stringMatching(/^[ -~]{1,300}$/),
      "x-request-id": fc.stringMatching(/^[ -~]{1,200}$/),
      "x-service-org-id": fc.constantFrom(...idsOf(things), "no"),
    },
    { requiredKeys: [] },
  );
  return fc
    .tuple(path, query, body, headers)
    .map(([at, asked, sent, head]) => ({ path: at, query: asText(asked as Record<string, unknown>), body: sent, headers: head }));
}

const asText = (query: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(query).map(([name, value]) => [name, typeof value === "string" ? value.toWellFormed() : JSON.stringify(value)]),
  );

/** Sends one request. The harness fails the request if the document does not describe its response. */
async function send(route: Route, { path, query, body, headers }: Generated): Promise<void> {
  const search = new URLSearchParams(query).toString();
  const with_body = route.method !== "GET" && body !== undefined;
  const credentials: Record<string, string> =
    route.access === "service_admin" ? { "x-service-admin-token": ADMIN_TOKEN } : { authorization: `Bearer ${things.org.admin_token}` };
  const key = route.idempotency === "required" ? { "idempotency-key": crypto.randomUUID() } : {};
  const response = await plane.fetch(`${plane.url}${path}${search === "" ? "" : `?${search}`}`, {
    method: route.method,
    headers: { ...(with_body ? { "content-type": route.consumes ?? "application/json" } : {}), ...key, ...headers, ...credentials },
    ...(with_body ? { body: JSON.stringify(body) } : {}),
    signal: AbortSignal.timeout(30_000),
  });
  const answer = await answerText(response);
  statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
  assert.ok(response.status < 500, `${route.method} ${path} answered ${response.status} ${answer.slice(0, 500)}`);
  if (response.status >= 400) assert.doesNotMatch(answer, /\n\s+at |pg_|relation |syntax error at/);
}

/** Whether a route gets no existing ids, because the route would delete objects that other requests need. */
const spared = (route: Route): boolean =>
  route.method === "DELETE" ||
  ["revokeToken", "suspendOrg", "rotateToken", "replaceRobot"].includes(route.name) ||
  route.path.startsWith("/agent/");

test("the OpenAPI document describes every response to valid and invalid requests", LIMIT, async (t) => {
  const before = heldBytes();
  for (const route of all.filter((one) => !spared(one))) {
    await fc.assert(
      fc.asyncProperty(requests(route), (request) => send(route, request)),
      { numRuns: RUNS, seed: SEED, endOnFailure: true },
    );
  }
  // Deleting routes get unknown ids and ids of another org only.
  for (const route of all.filter(spared)) {
    const elsewhere = requests(route).filter(({ path }) => !idsOf(things).some((id) => path.includes(id)));
    await fc.assert(
      fc.asyncProperty(elsewhere, (request) => send(route, request)),
      { numRuns: Math.ceil(RUNS / 4), seed: SEED, endOnFailure: true },
    );
  }
  const grown = heldBytes() - before;
  assert.ok(grown < GROWTH_BYTES_MAX, `${grown} bytes more are held`);
  const torn = plane.logged.filter(({ msg }) => typeof msg !== "string" || /[\r\n]/.test(msg));
  assert.deepEqual(torn, []);
  const count = Array.from(statuses.values()).reduce((sum, one) => sum + one, 0);
  const seen = Array.from(statuses.keys()).toSorted((a, b) => a - b);
  assert.ok(
    [200, 201, 400, 404].every((status) => statuses.has(status)),
    String(seen),
  );
  provePromise(t, 26, `${count} generated requests of ${all.length} routes: 0 undocumented statuses, 0 of 5xx; seen ${seen.join(", ")}`);
});
