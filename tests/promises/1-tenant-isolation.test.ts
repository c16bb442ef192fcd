import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";
import { fillPath, fleetStreamPaths, ROLES } from "@roamfleet/protocol";
import { type Route, routes } from "@roamfleet/protocol/routes";
import type { Statement } from "../../packages/server/src/kernel/sql.ts";
import { jsonb, row, sql, text } from "../../packages/server/src/kernel/sql.ts";
import { askRoute } from "../authorization/ask-route.ts";
import { idFields, makeThings, sampleRequest, type SampleRequest, type Things } from "../authorization/sample-requests.ts";
import { startPlane } from "../harness/index.ts";
import { STREAM_NAMES, streamTarget } from "../harness/stream-target.ts";
import { provePromise } from "../harness/promise.ts";
import { Http, type Reply } from "../spec/http.ts";
import { openSocket } from "../spec/web-socket.ts";

const LIMIT = { timeout: 300_000 };
const AT_ONCE = 8;
const ID = /^[a-z]+_[0-9a-z]{26}$/;
/** Minimum length of the texts in B's rows that no other org may receive. */
const DISTINCTIVE_CHARACTERS_MIN = 12;
const MARKER = "what only the other org knows";

/** The clock is stopped while rows are compared, because the server writes its counters every minute. */
const plane = await startPlane({
  at: "2030-01-01T00:00:00Z",
  limits: { unknown_requests_per_minute: 1_000_000, org_requests_per_hour: 1_000_000 },
});
after(() => plane[Symbol.asyncDispose]());

const isRole = (access: string): boolean => (ROLES as readonly string[]).includes(access);
const all: Route[] = Object.values(routes);
const portal = all.filter(({ access }) => isRole(access));
const of_robots = all.filter(({ access }) => access === "robot");

type Rows = Record<string, Record<string, unknown>[]>;

/** Returns every row of an org in every table, without the times at which a robot or token was last seen. */
async function rowsOf(org_id: string): Promise<Rows> {
  const found: Rows = {};
  for (const name of await tenantTables()) {
    const kept = written<{ of: Record<string, unknown> }>(
      `select to_jsonb(t) - 'last_seen_at' - 'last_used_at' as of from ${name} t where ${name === "org" ? "id" : "org_id"} = '${org_id}' order by t::text`,
      row({ of: jsonb<Record<string, unknown>>() }),
    );
    found[name] = (await plane.db.many(kept)).map(({ of }) => of);
  }
  return found;
}

const tenantTables = async (): Promise<string[]> =>
  (
    await plane.db.many(sql(row({ name: text }))`
      select c.relname::text as name from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and (c.relname = 'org' or exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'org_id'))`)
  ).map(({ name }) => name);

const written = <R>(statement: string, shape?: Statement<R>["row"]): Statement<R> => ({
  text: statement,
  name: undefined,
  values: [],
  row: shape,
});

/** Collects every string in a nested value. */
function textsIn(value: unknown, found = new Set<string>()): Set<string> {
  if (typeof value === "string") found.add(value);
  else if (typeof value === "object" && value !== null) for (const part of Object.values(value)) textsIn(part, found);
  return found;
}

/** Two orgs with one object of each kind. B's robot is offline, so that only a leak can change a row of B. */
interface Ground {
  a: Things;
  b: Things;
  /** One id of B of each kind, by its prefix. */
  ids: Map<string, string>;
  /** Texts in B's rows that are not in A's. */
  distinctive: string[];
  rows: Rows;
}

let ground: Ground;
before(async () => {
  const [a, b] = [await makeThings(await plane.org("A"), plane.clock.now()), await makeThings(await plane.org(MARKER), plane.clock.now())];
  await b.org.site(MARKER);
  b.robot.log(MARKER);
  await plane.until("the robot's log", async () =>
    (await (await b.org.api.request("GET", `/api/robots/${b.robot.id}/logs`)).text()).includes(MARKER),
  );
  await b.robot.disconnect();
  await plane.settle();
  await plane.advance({ minutes: 1 });
  const [of_a, rows] = [textsIn(await rowsOf(a.org.id)), await rowsOf(b.org.id)];
  const distinctive = [...textsIn(rows), b.sha256].filter(
    (one) => one.length >= DISTINCTIVE_CHARACTERS_MIN && !of_a.has(one) && !/^\d{4}-\d\d-\d\d/.test(one) && !one.startsWith("sample"),
  );
  assert.ok(distinctive.includes(MARKER));
  const ids = new Map(distinctive.filter((one) => ID.test(one)).map((id) => [id.split("_")[0] ?? "", id]));
  ids.set("sha256", b.sha256);
  assert.ok(ids.size > 12, [...ids.keys()].join(" "));
  ground = { a, b, ids, distinctive, rows };
});

/** Returns a text of B that is in a response and not in the request. */
function leakIn(answer: string, asked: string): string | undefined {
  return ground.distinctive.find((one) => answer.includes(one) && !asked.includes(one));
}

interface Ask {
  route: Route;
  request: SampleRequest;
  place: "path" | "query" | "body" | "none";
}

/**
 * Generates requests that use every ID of B in every field that takes an ID, for every route. A route without such fields is requested
 * once.
 */
function* requestsOfA(): Generator<Ask> {
  for (const route of portal) {
    const fields = idFields(route);
    if (fields.length === 0) yield { route, request: sampleRequest(route, ground.a), place: "none" };
    for (const field of fields)
      for (const value of ground.ids.values())
        yield { route, request: sampleRequest(route, ground.a, { ...field, value }), place: field.place };
    for (const name of Object.keys(route.query?.properties ?? {}).filter((name) => ["q", "tag", "namespace", "label"].includes(name)))
      yield { route, request: { ...sampleRequest(route, ground.a), query: { [name]: MARKER } }, place: "query" };
  }
}

const isAudit = ({ route }: Ask): boolean => route.path.startsWith("/api/audit");

/** Sends all requests with limited concurrency. Returns their number and the violations. */
async function askAll<T>(of: Iterable<T>, ask: (one: T) => Promise<string | undefined>): Promise<{ asked: number; wrong: string[] }> {
  const [left, wrong] = [[...of], [] as string[]];
  const asked = left.length;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let one = left.pop(); one !== undefined; one = left.pop()) {
        const fault = await ask(one);
        if (fault !== undefined) wrong.push(fault);
      }
    }),
  );
  return { asked, wrong };
}

const shown = ({ method, path }: Route, { status, text: answer }: Reply): string =>
  `${method} ${path} answered ${status} ${answer.slice(0, 300)}`;

async function askAsA({ route, request, place }: Ask): Promise<string | undefined> {
  const reply = await askRoute(plane, route, request, { token: ground.a.org.admin_token });
  const said = shown(route, reply);
  const leak = leakIn(reply.text, JSON.stringify(request));
  if (leak !== undefined) return `leaks ${leak}: ${said}`;
  // A part of a resumable upload may be refused for its headers before the owner of the release is checked.
  const refused = place !== "path" || reply.status === 404 || (route.path.endsWith("/artifact") && reply.status >= 400);
  return refused ? undefined : `${JSON.stringify(request.path)} is no 404: ${said}`;
}

/** Requests every stream of a robot and of a fleet; returns their number. */
async function askStreams(token: string, { robot, ids }: Things): Promise<number> {
  const fleet_id = ids.fleet_id ?? "";
  const paths = [
    ...STREAM_NAMES.map((name) => streamTarget(name, robot.id, { token })),
    ...Object.values(fleetStreamPaths).map((path) => `${fillPath(path, { id: fleet_id })}?token=${token}`),
  ];
  for (const path of paths) {
    const stream = await openSocket(plane.url + path);
    assert.ok("status" in stream, `${path} opened`);
    assert.equal(stream.status, 404, path);
    assert.equal(leakIn(JSON.stringify(stream.body), robot.id + fleet_id), undefined);
  }
  return paths.length;
}

async function askRobotRoutes(robot: Things["robot"], sets: Iterable<string | undefined>): Promise<number> {
  let asked = 0;
  for (const value of sets) {
    for (const route of of_robots.filter(({ method }) => method === "GET")) {
      const [field] = idFields(route);
      const { path } = sampleRequest(route, ground.b, field === undefined || value === undefined ? undefined : { ...field, value });
      const reply = await robot.get(path);
      assert.equal(leakIn(await reply.text(), path), undefined, `${route.path} leaks data of the other org`);
      // A route without an id must return nothing of the other org.
      if (field !== undefined || (value === undefined && route.path.includes("{"))) assert.equal(reply.status, 404, path);
      asked += 1;
    }
  }
  return asked;
}

async function setRowSecurity(on: boolean): Promise<void> {
  for (const name of await tenantTables())
    await plane.db.run(written(`alter table ${name} ${on ? "enable" : "disable"} row level security`));
}

let asked_by_app = 0;

test("without row-level security, no route, stream or link of an org reads or changes another org's data", LIMIT, async () => {
  const { a, b, ids } = ground;
  await setRowSecurity(false);
  try {
    // Request the audit routes first. Later, A's audit contains the IDs of B that A has requested.
    const [audits, others] = [[...requestsOfA()].filter(isAudit), [...requestsOfA()].filter((ask) => !isAudit(ask))];
    const first = await askAll(audits, askAsA);
    const { asked, wrong } = await askAll(others, askAsA);
    assert.deepEqual([...first.wrong, ...wrong], []);
    const of_header = await askAll(portal, async (route) => {
      const headers = { "x-service-org-id": b.org.id };
      const reply = await askRoute(plane, route, sampleRequest(route, b), { token: a.org.admin_token, headers });
      return reply.status === 403 && leakIn(reply.text, JSON.stringify(sampleRequest(route, b)) + b.org.id) === undefined
        ? undefined
        : shown(route, reply);
    });
    assert.deepEqual(of_header.wrong, []);
    const streams = await askStreams(a.org.admin_token, b);
    asked_by_app = first.asked + asked + of_header.asked + streams + (await askRobotRoutes(a.robot, ids.values()));
    const target = { deployment_id: ids.get("dep") ?? "", target_id: ids.get("tgt") ?? "", attempt: 1 };
    a.robot.report({ kind: "target", ...target, status: "failed", reason: MARKER });
    a.robot.progress(target.target_id, 1, 1, 2);
    await plane.settle();
  } finally {
    await setRowSecurity(true);
  }
  assert.deepEqual(await rowsOf(b.org.id), ground.rows, "a row of B has changed");
  // A's audit and its stored responses contain what A requested. No other row of A may contain a text of B.
  const { audit_entry: _, idempotency: __, ...rest } = await rowsOf(a.org.id);
  const known = textsIn(rest);
  assert.deepEqual(
    ground.distinctive.filter((one) => known.has(one) && one !== MARKER),
    [],
  );
});

test("refuses the list cursor of another org", LIMIT, async () => {
  const [ours, foreign] = [new Http(plane, ground.a.org.admin_token), new Http(plane, ground.b.org.admin_token)];
  const lists = portal.filter(
    ({ method, path, query }) => method === "GET" && !path.includes("{") && "cursor" in (query?.properties ?? {}),
  );
  let turned = 0;
  for (const { path } of lists) {
    const { next_cursor } = (await foreign.send("GET", `${path}?limit=1`)).body;
    if (typeof next_cursor !== "string") continue;
    turned += 1;
    assert.match((await ours.send("GET", `${path}?limit=1&cursor=${next_cursor}`)).refusal, /^400 /, path);
  }
  assert.ok(turned > 1);
});

/**
 * A plane whose responses are not compared with the OpenAPI document: hiding half of an org's rows leads to responses that are not
 * documented.
 */
const unchecked = {
  fetch,
  get url() {
    return plane.url;
  },
};

/** Runs `work` while every statement of a handler asks for rows of B on a connection that row-level security limits to A. */
async function withoutOrgInStatements(work: () => Promise<void>): Promise<void> {
  const { db } = plane.plane;
  const { a, b } = ground;
  const forOrg = db.forOrg.bind(db);
  Object.assign(db, { forOrg: (org_id: string) => forOrg(org_id === b.org.id ? a.org.id : org_id) });
  try {
    await work();
  } finally {
    Object.assign(db, { forOrg });
  }
}

test("row-level security alone prevents access to rows of another org by every route, stream and robot", LIMIT, async (t: TestContext) => {
  const { b } = ground;
  const before = await rowsOf(ground.a.org.id);
  // A token is looked up before its org is known, so getMe works.
  const reached = portal.filter(({ name }) => name !== "getMe");
  let [asked, streams] = [0, 0];
  await withoutOrgInStatements(async () => {
    const samples = reached.flatMap((route) => [
      { route, request: sampleRequest(route, b) },
      ...idFields(route)
        .filter(({ place, name }) => place !== "path" && b.ids[name] !== undefined)
        .map((field) => ({ route, request: sampleRequest(route, b, { ...field, value: b.ids[field.name] ?? "" }) })),
    ]);
    const answers = new Map<number, number>();
    const result = await askAll(samples, async ({ route, request }) => {
      const reply = await askRoute(unchecked, route, request, { token: b.org.admin_token });
      answers.set(reply.status, (answers.get(reply.status) ?? 0) + 1);
      const leak = leakIn(reply.text, JSON.stringify(request) + b.org.id);
      if (leak !== undefined) return `leaks ${leak}: ${shown(route, reply)}`;
      return route.path.includes("{id}") && reply.status < 400 ? `found: ${shown(route, reply)}` : undefined;
    });
    assert.deepEqual(result.wrong, []);
    t.diagnostic(`answers by status: ${JSON.stringify(Object.fromEntries(answers))}`);
    streams = await askStreams(b.org.admin_token, b);
    asked = result.asked + streams + (await askRobotRoutes(b.robot, [undefined]));
    await plane.settle();
  });
  // Audit entries of refused requests and nonces of robots' requests are written outside of row-level security.
  const { audit_entry: _, robot_request: _request, ...rows } = await rowsOf(b.org.id);
  const { audit_entry: __, robot_request: ___, ...expected } = ground.rows;
  assert.deepEqual(rows, expected, "a row of B has changed");
  assert.deepEqual(await rowsOf(ground.a.org.id), before, "a row was written for A");
  const entries = portal.length + of_robots.length + streams;
  provePromise(
    t,
    1,
    `0 leaks, each wall alone: ${entries} routes and streams × ${ground.ids.size} kinds of another org's ids, ${asked_by_app} requests with row-level security off, ${asked} with the org_id of every statement the other org's`,
  );
});
