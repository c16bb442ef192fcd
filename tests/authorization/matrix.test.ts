import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test, type TestContext } from "node:test";
import {
  accessOf,
  fillPath,
  fleetStreamAccess,
  type FleetStreamName,
  fleetStreamPaths,
  type Role,
  roleAtLeast,
  ROLES,
  streamAccess,
  streamPaths,
} from "@roamfleet/protocol";
import { type LogHistogram, type Report, type Route, routes } from "@roamfleet/protocol/routes";
import { provePromise } from "../harness/promise.ts";
import { startPlane } from "../harness/index.ts";
import { STREAM_NAMES, streamTarget } from "../harness/stream-target.ts";
import { Http, type Reply } from "../spec/http.ts";
import { askRoute } from "./ask-route.ts";
import { type Column, COLUMNS, columns, makeGround } from "./columns.ts";
import {
  finishedDelivery,
  sampleEmail,
  sampleMute,
  sampleRequest,
  type SampleRequest,
  sampleRule,
  sampleView,
  type Things,
} from "./sample-requests.ts";

const LIMIT = { timeout: 300_000 };
const plane = await startPlane({ limits: { unknown_requests_per_minute: 1_000_000, org_requests_per_hour: 1_000_000 } });
after(() => plane[Symbol.asyncDispose]());
const ground = await makeGround(plane);

/** A row of the matrix: a route, and the field that names an object, if any. */
interface Line {
  name: string;
  /**
   * The object on which the caller needs the role. `shared`: each member of the org is allowed. `list`: allowed, but the response is
   * filtered.
   */
  on: "object" | "site" | "whole" | "shared" | "list";
  /** Access of the route, and the role that is needed for the named object. */
  access: Role | "public" | "robot" | "service_admin";
  needed: Role;
  /** Whether the path contains the ID of an object. If so, an object of another org returns 404. */
  has_id: boolean;
  route?: Route;
  ask(column: Column): Promise<Reply>;
}

const isRole = (access: string): access is Role => (ROLES as readonly string[]).includes(access);

/** Creates a release whose 3 bytes are not uploaded yet, and optionally starts a resumable upload with other bytes. */
async function awaited({ org }: Things, begun: boolean): Promise<string> {
  const { id } = await org.release({ tag: randomUUID(), bytes: "xyz", upload: false });
  if (begun) {
    const headers = { "tus-resumable": "1.0.0", "upload-length": "3" };
    assert.equal((await org.api.request("POST", `/api/releases/${id}/artifact`, { headers })).status, 201);
  }
  return id;
}

/** Objects to delete are created for each cell, because a permitted cell deletes them. */
const FRESH: Record<string, (things: Things) => Promise<string>> = {
  deleteRobot: async ({ org, ids }) => (await org.enrollRobot({ fleet_id: ids.fleet_id ?? "", online: false })).id,
  deleteConfig: async ({ org, ids }) => {
    const body = { key: randomUUID(), value: 1, scope: "robot" as const, scope_id: ids.robot_id ?? "" };
    return (await org.api.setConfig({ body })).data.id;
  },
  deleteConfigSchema: async () => {
    const namespace = randomUUID();
    // A namespace is a name, not an id: each org has its own.
    for (const { org } of [ground.a, ground.foreign]) await org.api.setConfigSchema({ params: { namespace }, body: { schema: {} } });
    return namespace;
  },
  cancelConfigDeployment: async ({ org, ids }) => {
    const robot = await org.enrollRobot({ fleet_id: ids.fleet_id ?? "", online: false });
    return (await org.deployConfig({ robot_id: robot.id })).id;
  },
  cancelDeployment: async ({ org, ids }) => {
    const tomorrow = new Date(plane.clock.now().getTime() + 86_400_000).toISOString();
    return (await org.deploy({ id: ids.release_id ?? "" }, { robot_id: ids.robot_id ?? "" }, { scheduled_at: tomorrow })).id;
  },
  deleteAlertRule: ({ org, ids }) => sampleRule(org, ids.fleet_id ?? ""),
  deleteAlertMute: ({ org, ids }) => sampleMute(org, ids.fleet_id ?? ""),
  startUpload: (things) => awaited(things, false),
  continueUpload: (things) => awaited(things, true),
  endUpload: (things) => awaited(things, true),
  deleteUser: async ({ org }) => (await org.api.createUser({ body: { email: sampleEmail(), name: "Ada", role: "viewer" } })).data.id,
  revokeToken: async ({ org }) => (await org.api.createToken({ body: { label: "sample", role: "viewer" } })).data.id,
  deleteChannel: ({ org }) => org.emptyChannel(),
  deleteView: ({ org }) => sampleView(org),
  resendDelivery: ({ org, ids }) => finishedDelivery(org, ids["/api/channels"] ?? ""),
  revokeEnrollmentKey: async ({ org, ids }) =>
    (await org.api.createEnrollmentKey({ body: { site_id: ids.site_id ?? "", fleet_id: ids.fleet_id ?? "" } })).data.id,
};

/**
 * Creates a valid request about the objects of a column. With `field`, only that field names an object of `from`; all others name objects
 * of `base`.
 */
async function request(
  route: Route,
  { from, base }: Column,
  field?: { in: "query" | "body"; name: string; scope?: string },
): Promise<SampleRequest> {
  if (field !== undefined) {
    if (field.name === "target_selector") {
      const { robot_id = "", fleet_id = "", site_id = "" } = from.ids;
      // Robots are selected within a fleet of the caller: a selector without a place needs a role in the whole org.
      const robots = { fleet_id: base.ids.fleet_id ?? "", robot_ids: [robot_id] };
      const value = field.scope === "robot" ? robots : field.scope === "fleet" ? { fleet_id } : { site_id };
      const made = sampleRequest(route, base, { place: field.in, name: field.name, value: "" });
      return { ...made, body: { ...made.body, target_selector: value } };
    }
    const value = field.scope === undefined ? (from.ids[field.name] ?? "") : (from.ids[`${field.scope}_id`] ?? "");
    const made = sampleRequest(route, base, { place: field.in, name: field.name, value });
    const beside = field.name === "target_id" ? { target_kind: field.scope } : field.name === "scope_id" ? { scope: field.scope } : {};
    return field.in === "body" ? { ...made, body: { ...made.body, ...beside } } : made;
  }
  // Every member may switch to their own org; ids of other orgs are tested separately.
  if (route.name === "updateSession") return sampleRequest(route, base);
  const fresh = FRESH[route.name];
  if (fresh === undefined || ![ground.a, ground.sibling, ground.b].includes(from)) return sampleRequest(route, from);
  return sampleRequest(route, from, { place: "path", name: "id", value: await fresh(from) });
}

/** Fields that accept ids of several kinds, and those kinds. */
const KINDS_OF: Record<string, readonly string[]> = {
  target_id: ["robot", "fleet"],
  target_selector: ["site", "fleet", "robot"],
  scope_id: ["robot", "fleet", "site"],
};

function linesOf(route: Route): Line[] {
  const row = accessOf(route.name);
  const common = { access: row.access, route, has_id: route.path.includes("{id}") };
  const name = `${route.method} ${route.path}`;
  const ask = (of?: { in: "query" | "body"; name: string; scope?: string }) => async (column: Column) => {
    const made = await request(route, column, of);
    if (route.name !== "updateAlertRule" || of === undefined) return askRoute(plane, route, made, { token: column.token });
    // Moves a new rule. If it moved the sample rule, concurrent requests would not find that rule in its fleet.
    const { org, ids } = column.base;
    const id = await sampleRule(org, ids.fleet_id ?? "");
    const reply = await askRoute(plane, route, { ...made, path: fillPath(route.path, { id }) }, { token: column.token });
    await org.api.deleteAlertRule({ params: { id } });
    return reply;
  };
  if (!isRole(row.access)) return [{ ...common, name, on: "shared", needed: "viewer", ask: ask() }];
  const needed = row.access;
  if (row.outside === "allowed") return [{ ...common, name, on: "shared", needed, ask: ask() }];
  if (row.outside === "forbidden") return [{ ...common, name, on: "whole", needed, ask: ask() }];
  // The response of an event stream is filtered too, but features/events and scenarios/events test that, not this matrix.
  const on = route.produces === "text/event-stream" ? "shared" : "list";
  const lines: Line[] = row.outside === "filtered" ? [{ ...common, name, on, needed, ask: ask() }] : [];
  for (const { in: place, field, kind, role } of row.objects) {
    if (place === "params") lines.push({ ...common, name, on: kind === "site" ? "site" : "object", needed: role, ask: ask() });
    else {
      for (const scope of KINDS_OF[field] ?? [undefined]) {
        const on = (scope ?? kind) === "site" ? "site" : "object";
        const of = { in: place, name: field, ...(scope === undefined ? {} : { scope }) };
        lines.push({
          ...common,
          name: `${name} by ${field}${scope === undefined ? "" : ` of a ${scope}`}`,
          on,
          needed: role,
          ask: ask(of),
        });
      }
    }
  }
  // Without a scope a value applies to the whole org.
  if (route.name === "setConfig") lines.push({ ...common, name: `${name} for the org`, on: "whole", needed, ask: ask() });
  return lines;
}

const streamLines = STREAM_NAMES.map((name): Line => {
  const { access } = streamAccess[name];
  // The OpenAPI documents do not contain these paths, so responses are not compared with them.
  const unchecked = { url: plane.url, fetch };
  const ask = ({ from, token }: Column): Promise<Reply> => new Http(unchecked, token).get(streamTarget(name, from.ids.robot_id ?? ""));
  return { name: `WebSocket ${streamPaths[name]}`, on: "object", access, needed: access, has_id: true, ask };
});

/** Creating a ticket needs the role of the ticket's stream. The access of the route alone does not state that role. */
const ticketLines = Object.entries({ ...streamAccess, ...fleetStreamAccess }).map(([name, { access: needed }]): Line => {
  const route: Route = routes.createStreamTicket;
  const field = name in fleetStreamAccess ? "fleet_id" : "robot_id";
  const ask = ({ from, token }: Column): Promise<Reply> =>
    askRoute(plane, route, { path: route.path, query: {}, body: { [field]: from.ids[field], stream: name } }, { token });
  return { name: `ticket of ${name}`, on: "object", access: route.access, needed, has_id: true, ask };
});

const fleetStreamLines = (Object.keys(fleetStreamPaths) as FleetStreamName[]).map((name): Line => {
  const { access } = fleetStreamAccess[name];
  const unchecked = { url: plane.url, fetch };
  const ask = ({ from, token }: Column): Promise<Reply> =>
    new Http(unchecked, token).get(fillPath(fleetStreamPaths[name], { id: from.ids.fleet_id ?? "" }));
  return { name: `WebSocket ${fleetStreamPaths[name]}`, on: "object", access, needed: access, has_id: true, ask };
});

const lines = [...(Object.values(routes) as Route[]).flatMap(linesOf), ...streamLines, ...fleetStreamLines, ...ticketLines];

type Outcome = "may" | "not found" | "forbidden" | "unauthorized";

/** Returns the expected status of a cell, computed from the table alone. */
function expected({ access, on, needed, has_id }: Line, column: Column, role: Role): Outcome {
  if (access === "public") return "may";
  if (access === "robot") return "unauthorized";
  if (access === "service_admin" || !roleAtLeast(role, access)) return "forbidden";
  const elsewhere = column.base.org !== column.from.org;
  if (on === "list") return "may";
  if (on === "shared" || on === "whole") {
    if (elsewhere) return has_id ? "not found" : "may";
    return on === "shared" || isEnough(column.on.whole, needed) ? "may" : "forbidden";
  }
  if (column.on[on] === undefined) return "not found";
  return isEnough(column.on[on], needed) ? "may" : "forbidden";
}

const isEnough = (role: Role | undefined, needed: Role): boolean => role !== undefined && roleAtLeast(role, needed);

/** Error statuses that a permitted request may return, because its object already exists or the sample bytes are invalid. */
const LET_IN: Record<string, readonly number[]> = {
  putReleaseArtifact: [400],
  continueUpload: [400],
  // The sample's fleet may belong to another site than the sample's site.
  createEnrollmentKey: [400],
  // The signed statement names the org of the sample, which may differ from the caller's org.
  changeSigningKeys: [400],
  // The sample has no URL: channels of all samples together would be more than an org may have.
  createChannel: [400],
  // Without a user in the body, an incident is assigned to the caller, and an org token is no user.
  assignIncident: [400],
  // The samples are shared views. Only operators of the whole org may change them: packages/server/src/features/views/views.test.ts.
  updateView: [403],
  deleteView: [403],
  // The test server uses plain HTTP without a certificate.
  getCertificateAuthority: [404],
  // The test server hosts no packages.
  getInstallScript: [404],
};

function outcomeOf(line: Line, { status }: Reply): Outcome | "broken" {
  if (status < 300 || status === 409 || (line.route === undefined && status === 426)) return "may";
  if (line.route !== undefined && LET_IN[line.route.name]?.includes(status)) return "may";
  return ({ 401: "unauthorized", 403: "forbidden", 404: "not found" } as const)[status] ?? "broken";
}

/** Which of the sample objects these lists contain. Others contain those of their path. */
const PATH_OF_ITEMS: Record<string, string> = {
  listTimeline: "robot_id",
  searchLogs: "robot_id",
  getFleetOverview: "fleet_id",
  queryMetrics: "robot_id",
  listPositions: "robot_id",
};

/** Asserts that a list contains exactly the objects that the caller may see. */
function checkList(line: Line, column: Column, reply: Reply): void {
  const name = line.route?.name;
  if (name === "getOverview")
    return assert.equal((reply.data.robots as { total: number }).total >= 1, column.sees.length > 0 || column.base !== column.from);
  if (name === "bulkUpdateRobots") return checkBulk(column, reply);
  if (name === "getReport") return checkReport(column, reply);
  // It lists names of rollups, which do not exist yet: packages/server/src/features/metrics/rollup.test.ts.
  if (name === "listMetrics") return;
  if (name === "countLogs") return checkCounts(column, reply);
  const path = PATH_OF_ITEMS[name ?? ""] ?? line.route?.path ?? "";
  const listed = new Set(
    name === "getFleetOverview"
      ? (reply.data.fleets as { fleet_id: string }[]).map(({ fleet_id }) => fleet_id)
      : name === "queryMetrics"
        ? (reply.data.groups as { id: string }[]).map(({ id }) => id)
        : reply.items.map((item) => (path === "robot_id" && name !== "listPositions" ? item.robot_id : item.id)),
  );
  const seen = new Set(column.sees.map(({ ids }) => ids[path]));
  for (const things of [ground.a, ground.sibling, ground.b]) {
    const id = things.ids[path];
    assert.ok(id, path);
    assert.equal(listed.has(id), seen.has(id), `${line.name} ${column.name}: ${id}`);
  }
}

/** Checks that a report contains deployments only of fleets that the caller sees, and people only for admins of the whole org. */
function checkReport({ sees, base, from, on }: Column, { data }: Reply): void {
  const { changed, open } = data as unknown as Report;
  const deployments = [...changed.started_deployments.items, ...changed.finished_deployments.items, ...open.deployments.items];
  const sees_any = sees.length > 0 || base !== from;
  assert.equal(deployments.length > 0, sees_any);
  for (const things of [ground.a, ground.sibling, ground.b].filter((one) => base === from && !sees.includes(one)))
    assert.ok(!deployments.some(({ fleet_id, robot_id }) => fleet_id === things.ids.fleet_id || robot_id === things.ids.robot_id));
  assert.equal(changed.people !== null, isEnough(on.whole, "admin"));
}

/** Checks that a histogram counts the one record of each robot that the caller sees. The robot of another org has one, too. */
function checkCounts({ sees, base, from }: Column, { data }: Reply): void {
  const { buckets } = data as unknown as LogHistogram;
  const count = buckets.reduce((sum, { counts }) => sum + counts.info, 0);
  assert.equal(count, base === from || sees.length > 0 ? sees.length : 1);
}

/** Checks that a permitted caller of a bulk route receives the expected outcome for the robot. */
function checkBulk({ on, from }: Column, { items }: Reply): void {
  const wanted = on.object === undefined ? ["not_found"] : isEnough(on.object, "operator") ? ["changed", "unchanged"] : ["forbidden"];
  const [item] = items;
  assert.ok(
    item?.robot_id === from.ids.robot_id && wanted.includes(String(item?.outcome)),
    `${JSON.stringify(items)} instead of ${wanted.join()}`,
  );
}

/** Number of concurrent cells. */
const AT_ONCE = 8;

/** Sends the request of a cell. Returns a description of the error if the response is wrong. */
async function ask(line: Line, column: Column, role: Role): Promise<string | undefined> {
  const reply = await line.ask(column);
  const [is, should] = [outcomeOf(line, reply), expected(line, column, role)];
  if (is === should && line.on === "list" && is === "may") checkList(line, column, reply);
  return is === should
    ? undefined
    : `${role} ${column.name}: ${line.name} should be ${should}, answered ${reply.status} ${reply.text.slice(0, 200)}`;
}

let right = 0;

for (const role of ROLES) {
  test(`the role ${role} is allowed exactly what the permission table states`, LIMIT, async () => {
    const wrong: string[] = [];
    for (const column of await columns(plane, ground, role)) {
      const left = [...lines];
      const askers = Array.from({ length: AT_ONCE }, async () => {
        for (let line = left.shift(); line !== undefined; line = left.shift()) {
          const fault = await ask(line, column, role);
          if (fault === undefined) right += 1;
          else wrong.push(fault);
        }
      });
      await Promise.all(askers);
    }
    assert.deepEqual(wrong, []);
  });
}

test("an object outside the token's scope returns the same error as a missing object", LIMIT, async () => {
  const outside = (await columns(plane, ground, "admin")).find(({ name }) => name === "on a site, outside");
  assert.ok(outside);
  const everywhere = await ground.a.org.token({ role: "admin" });
  for (const line of lines.filter(({ on, access }) => isRole(access) && (on === "object" || on === "site"))) {
    const hidden: string = (await line.ask(outside)).refusal;
    const absent: string = (await line.ask({ ...outside, from: nowhere(outside.from), token: everywhere })).refusal;
    const words = (refusal: string): string => refusal.replace(/\b(?!org_)[a-z]+_[0-9a-z]{26}\b/g, "ID");
    assert.equal(words(hidden), words(absent), line.name);
  }
});

/** Returns the same objects, but with IDs that do not exist. */
const nowhere = (things: Things): Things => ({
  ...things,
  ids: Object.fromEntries(Object.entries(things.ids).map(([name, id]) => [name, id.replace(/_.{26}$/, `_${"0".repeat(26)}`)])),
});

test("every cell of the permission table was requested and matched", (t: TestContext) => {
  const cells = lines.length * ROLES.length * COLUMNS;
  assert.equal(right, cells);
  assert.ok(lines.length > 100);
  provePromise(
    t,
    2,
    `${cells} of ${cells} cells as the table says: ${lines.length} routes, streams and fields × ${ROLES.length} roles × ${COLUMNS} scopes`,
  );
});
