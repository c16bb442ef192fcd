import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, test } from "node:test";
import { ApiError, createClient, Unreachable } from "./index.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

interface Seen {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  body: string;
}

/** A server that sends scripted responses and records requests. */
async function startPeer(
  answer: (seen: Seen, response: ServerResponse, count: number) => void,
): Promise<{ base_url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const one = { method: request.method!, url: request.url!, headers: request.headers, body: Buffer.concat(chunks).toString() };
      seen.push(one);
      answer(one, response, seen.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

const list = { items: [], next_cursor: null };

test("an API call sends path, query, body and credentials, and returns the response body", async () => {
  const peer = await startPeer((_, response) => json(response, 200, { data: { id: "dep_1" } }));
  const client = createClient({ base_url: `${peer.base_url}/`, token: "rf_user_a", org_id: "org_1" });
  await client.getRobot({ params: { id: "a/b?c" } });
  await client.listRobots({ query: { limit: 5, status: undefined, label: "zone:a b" } }).catch(() => {});
  const answer = await client.createDeployment({ body: { release: "1.0", robot_id: "rob_1", fleet_id: undefined }, idempotency_key: "k1" });
  assert.deepEqual(answer, { data: { id: "dep_1" } });
  const [get, query, post] = peer.seen;
  assert.equal(get!.url, "/api/robots/a%2Fb%3Fc");
  assert.equal(get!.headers.authorization, "Bearer rf_user_a");
  assert.equal(get!.headers["x-service-org-id"], "org_1");
  assert.equal(query!.url, "/api/robots?limit=5&label=zone%3Aa+b");
  assert.equal(post!.headers["idempotency-key"], "k1");
  assert.deepEqual(JSON.parse(post!.body), { release: "1.0", robot_id: "rob_1" });
});

test("prepends the path of the base URL to every route", async () => {
  const peer = await startPeer((_, response) => json(response, 200, list));
  await createClient({ base_url: `${peer.base_url}/fleet/` }).listSites();
  assert.equal(peer.seen[0]!.url, "/fleet/api/sites");
});

test("rejects an invalid base URL immediately", () => {
  for (const base_url of ["localhost:7600", "", "ftp://x", "http://a:b@x", "http://x?y=1"])
    assert.throws(() => createClient({ base_url }), TypeError);
});

test("throws an ApiError with status, code, message and request id", async () => {
  const body = { error: { code: "not_found", message: "robot rob_x does not exist" } };
  const peer = await startPeer((_, response) => json(response, 404, body, { "x-request-id": "r1" }));
  const error = await createClient({ base_url: peer.base_url })
    .getRobot({ params: { id: "rob_x" } })
    .catch((thrown: unknown) => thrown);
  assert.ok(error instanceof ApiError);
  assert.deepEqual(
    [error.status, error.code, error.message, error.request_id, error.body],
    [404, "not_found", body.error.message, "r1", body],
  );
});

test("an API call reports a response that is not JSON", async () => {
  const peer = await startPeer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<h1>hi</h1>"));
  const error = await createClient({ base_url: peer.base_url })
    .listRobots()
    .catch((thrown: unknown) => thrown);
  assert.ok(error instanceof ApiError);
  assert.match(error.message, /does not look like Roamfleet: status 200 with text\/html/);
});

test("does not follow a redirect, and the error names the redirect's target", async () => {
  const peer = await startPeer((_, response) =>
    response.writeHead(301, { location: "https://elsewhere.example/api/robots?token=x" }).end(),
  );
  const error = await createClient({ base_url: peer.base_url, token: "rf_user_a" })
    .listRobots()
    .catch((thrown: unknown) => thrown);
  assert.ok(error instanceof ApiError);
  assert.match(error.message, /redirects to https:\/\/elsewhere\.example\/api\/robots: use/);
});

test("retries a GET and a POST with an idempotency key after 429 and 503", async () => {
  const waits: number[] = [];
  const peer = await startPeer((seen, response, count) => {
    if (count % 3 !== 0) return json(response, count % 3 === 1 ? 429 : 503, {}, { "retry-after": "0" });
    return json(response, 200, seen.method === "GET" ? list : { data: {} });
  });
  const client = createClient({ base_url: peer.base_url, on_retry: ({ wait_ms }) => waits.push(wait_ms) });
  await client.listSites();
  await client.createSite({ body: { name: "a" }, idempotency_key: "k" });
  assert.equal(peer.seen.length, 6);
  assert.deepEqual(waits, [0, 0, 0, 0]);
});

test("does not retry a POST, PATCH or DELETE without an idempotency key after a 503", async () => {
  const peer = await startPeer((_, response) =>
    json(response, 503, { error: { code: "http_error", message: "no database" } }, { "retry-after": "0" }),
  );
  const client = createClient({ base_url: peer.base_url });
  await assert.rejects(client.createSite({ body: { name: "a" } }), { status: 503 });
  await assert.rejects(client.updateSite({ params: { id: "site_1" }, body: { name: "a" } }), { status: 503 });
  await assert.rejects(client.deleteSite({ params: { id: "site_1" } }), { status: 503 });
  assert.deepEqual(
    peer.seen.map(({ method }) => method),
    ["POST", "PATCH", "DELETE"],
  );
});

test("retries a POST without an idempotency key after a 429", async () => {
  const peer = await startPeer((_, response, count) =>
    count === 1 ? json(response, 429, {}, { "retry-after": "0" }) : json(response, 201, { data: {} }),
  );
  await createClient({ base_url: peer.base_url }).createSite({ body: { name: "a" } });
  assert.equal(peer.seen.length, 2);
});

test("an API call does not wait for a Retry-After above the limit", async () => {
  const peer = await startPeer((_, response) =>
    json(response, 429, { error: { code: "http_error", message: "slow down" } }, { "retry-after": "3600" }),
  );
  const error = await createClient({ base_url: peer.base_url })
    .listRobots()
    .catch((thrown: unknown) => thrown);
  assert.ok(error instanceof ApiError);
  assert.deepEqual([error.status, error.retry_after_seconds, peer.seen.length], [429, 3600, 1]);
});

test("an API call throws the last error response after all retries", async () => {
  const peer = await startPeer((_, response) =>
    json(response, 503, { error: { code: "http_error", message: "no database" } }, { "retry-after": "0" }),
  );
  await assert.rejects(createClient({ base_url: peer.base_url, retries: 2 }).listRobots(), { status: 503, message: "no database" });
  assert.equal(peer.seen.length, 3);
});

test("retries a lost connection for GET and for POST with an idempotency key only", async () => {
  const peer = await startPeer((seen, response, count) =>
    count % 2 === 1 ? response.socket!.destroy() : json(response, 200, seen.method === "GET" ? list : { data: {} }),
  );
  const client = createClient({ base_url: peer.base_url });
  await client.listRobots();
  await client.createSite({ body: { name: "a" }, idempotency_key: "k" });
  assert.equal(peer.seen.length, 4);
  await assert.rejects(client.createSite({ body: { name: "b" } }), Unreachable);
  assert.equal(peer.seen.length, 5);
});

test("an API call throws Unreachable without the token in its message if nothing listens", async () => {
  const peer = await startPeer(() => {});
  for (const close of closers.splice(0)) close();
  const error = await createClient({ base_url: peer.base_url, token: "rf_user_secret", retries: 0 })
    .getMe()
    .catch((thrown: unknown) => thrown);
  assert.ok(error instanceof Unreachable);
  assert.equal(error.message, `cannot reach ${peer.base_url}: nothing listens there (connection refused)`);
});

test("an API call throws Unreachable on a response timeout", { timeout: 120_000 }, async () => {
  const peer = await startPeer(() => {});
  await assert.rejects(createClient({ base_url: peer.base_url, timeout_ms: 50, retries: 0 }).getMe(), {
    name: "Unreachable",
    reason: "timeout",
  });
});

test("an aborted API call throws the reason of the abort signal", { timeout: 120_000 }, async () => {
  const peer = await startPeer(() => controller.abort(new Error("enough")));
  const controller = new AbortController();
  await assert.rejects(createClient({ base_url: peer.base_url }).getMe({ signal: controller.signal }), { message: "enough" });
});

test("iterating over pages follows the cursor to the end and keeps the filters", async () => {
  const peer = await startPeer((_, response, count) =>
    json(response, 200, { items: [count], next_cursor: count < 3 ? `c${count}` : null }),
  );
  const items: unknown[] = [];
  for await (const page of createClient({ base_url: peer.base_url }).pages("listRobots", { query: { status: "online" } }))
    items.push(...page.items);
  assert.deepEqual(items, [1, 2, 3]);
  assert.deepEqual(
    peer.seen.map(({ url }) => url),
    ["/api/robots?status=online", "/api/robots?status=online&cursor=c1", "/api/robots?status=online&cursor=c2"],
  );
});

test("iterating over pages throws if a cursor repeats", async () => {
  const peer = await startPeer((_, response) => json(response, 200, { items: [], next_cursor: "again" }));
  await assert.rejects(async () => {
    for await (const page of createClient({ base_url: peer.base_url }).pages("listRobots")) void page;
  }, /same page cursor twice/);
});

test("sends the admin token only to admin routes, in a separate header next to a portal token", async () => {
  const peer = await startPeer((_, response) => json(response, 200, list));
  await createClient({ base_url: peer.base_url, admin_token: "adm" }).listOrgs();
  await createClient({ base_url: peer.base_url, admin_token: "adm", token: "rf_org_a" }).listOrgs();
  await createClient({ base_url: peer.base_url, admin_token: "adm", token: "rf_org_a" }).listRobots();
  await createClient({ base_url: peer.base_url, admin_token: "adm" }).listRobots();
  assert.deepEqual(
    peer.seen.map(({ headers }) => [headers.authorization, headers["x-service-admin-token"]]),
    [
      ["Bearer adm", undefined],
      ["Bearer rf_org_a", "adm"],
      ["Bearer rf_org_a", undefined],
      [undefined, undefined],
    ],
  );
});

test("client.request returns any status and sends a text body unchanged", async () => {
  const peer = await startPeer((_, response) => json(response, 418, { a: 1 }));
  const response = await createClient({ base_url: peer.base_url }).request("POST", "/api/x?y=1", { body: "{ }", query: { z: 2 } });
  assert.deepEqual([response.status, await response.json()], [418, { a: 1 }]);
  assert.deepEqual(
    [peer.seen[0]!.url, peer.seen[0]!.body, peer.seen[0]!.headers["content-type"]],
    ["/api/x?y=1&z=2", "{ }", "application/json"],
  );
});
