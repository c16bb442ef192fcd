import assert from "node:assert/strict";
import { request } from "node:http";
import { networkInterfaces } from "node:os";
import { test } from "node:test";
import type { SimulatedClock } from "@roamfleet/clock";
import { ADMIN_TOKEN, type Harness, type HarnessOptions, startPlane } from "../harness/index.ts";
import { Program } from "../processes/process.ts";

const LIMIT = { timeout: 300_000 };
const PATH = "/api/admin/orgs";

/** Sends a raw request, because fetch would set Host and Origin automatically. */
function ask(plane: Harness, headers: Record<string, string> = {}, host = "127.0.0.1"): Promise<{ status: number; message: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ host, port: new URL(plane.url).port, path: PATH, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => (text += part));
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, message: (JSON.parse(text) as { error?: { message: string } }).error?.message ?? "" }),
      );
    });
    sent.on("error", reject).end();
  });
}

async function answers(
  options: HarnessOptions["settings"],
  cases: readonly [what: string, headers: Record<string, string>, status: number][],
): Promise<void> {
  await using plane = await startPlane({ settings: options ?? {} });
  const { port } = new URL(plane.url);
  for (const [what, headers, status] of cases) {
    const filled = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, value.replace("PORTAL", plane.default_org.admin_token).replace("PORT", port)]),
    );
    const answer = await ask(plane, filled);
    assert.equal(answer.status, status, `${what}: ${answer.message}`);
    if (status === 403 && options?.admin_token === undefined) assert.match(answer.message, /SERVICE_ADMIN_TOKEN/, what);
  }
}

test("admin routes accept only the value of SERVICE_ADMIN_TOKEN if that variable is set", LIMIT, () =>
  answers({ admin_token: ADMIN_TOKEN }, [
    ["nothing", {}, 401],
    ["the admin token", { authorization: `Bearer ${ADMIN_TOKEN}` }, 200],
    ["the admin token in another case of Bearer", { authorization: `bearer ${ADMIN_TOKEN}` }, 200],
    ["the admin token beside a portal token", { authorization: "Bearer PORTAL", "x-service-admin-token": ADMIN_TOKEN }, 200],
    ["a portal token alone", { authorization: "Bearer PORTAL" }, 403],
    ["a portal token beside a wrong admin token", { authorization: "Bearer PORTAL", "x-service-admin-token": "wrong" }, 403],
    ["a wrong token", { authorization: "Bearer wrong" }, 401],
    ["a part of the token", { authorization: `Bearer ${ADMIN_TOKEN.slice(0, -1)}` }, 401],
    ["a longer token", { authorization: `Bearer ${ADMIN_TOKEN}x` }, 401],
    ["an empty one", { "x-service-admin-token": "" }, 401],
  ]),
);

test("an address that guesses admin tokens gets 429, but may still use the correct token", LIMIT, async () => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z", settings: { admin_token: ADMIN_TOKEN } });
  const answer = async (token: string) => (await ask(plane, { authorization: `Bearer ${token}` })).status;
  const statuses: number[] = [];
  for (let i = 0; i < 25; i += 1) statuses.push(await answer(`guess-${i}`));
  assert.deepEqual(statuses, [...Array.from({ length: 20 }, () => 401), ...Array.from({ length: 5 }, () => 429)]);
  assert.equal(await answer(ADMIN_TOKEN), 200);
  assert.equal(await answer("guess-25"), 429);
  await (plane.clock as SimulatedClock).advance({ seconds: 6 });
  assert.equal(await answer("guess-26"), 401);
});

test("admin routes without SERVICE_ADMIN_TOKEN accept every request from this machine", LIMIT, () =>
  answers({ admin_token: undefined }, [
    ["nothing", {}, 200],
    ["any token", { authorization: "Bearer anything" }, 200],
    ["a portal token", { authorization: "Bearer PORTAL" }, 200],
    ["localhost", { host: "localhost:PORT" }, 200],
    ["IPv6's localhost", { host: "[::1]:PORT" }, 200],
    ["the page of this very server", { host: "127.0.0.1:PORT", origin: "http://127.0.0.1:PORT" }, 200],
  ]),
);

test("admin routes without SERVICE_ADMIN_TOKEN refuse requests that may come from another machine", LIMIT, () =>
  answers({ admin_token: undefined }, [
    ["another name that leads here", { host: "evil.example" }, 403],
    ["a name that begins like localhost", { host: "localhost.evil.example" }, 403],
    ["a forwarded request", { forwarded: "for=10.0.0.1" }, 403],
    ["a forwarded request", { "x-forwarded-for": "127.0.0.1" }, 403],
    ["a forwarded request", { "x-forwarded-host": "localhost" }, 403],
    ["a forwarded request", { "x-forwarded-proto": "https" }, 403],
    ["a page of another site", { origin: "https://evil.example" }, 403],
    ["a page of another port", { host: "127.0.0.1:PORT", origin: "http://127.0.0.1:1" }, 403],
    ["a page without an origin", { origin: "null" }, 403],
  ]),
);

test("admin routes without SERVICE_ADMIN_TOKEN refuse all requests behind a proxy", LIMIT, () =>
  answers({ admin_token: undefined, behind_proxy: ["127.0.0.1"] }, [
    ["this machine", {}, 403],
    ["this machine, with a token", { authorization: "Bearer anything" }, 403],
  ]),
);

test(
  "without SERVICE_ADMIN_TOKEN, admin routes refuse requests from another machine even if their Host header is localhost",
  LIMIT,
  async (t) => {
    const address = Object.values(networkInterfaces())
      .flat()
      .find((one) => one?.family === "IPv4" && !one.internal)?.address;
    if (address === undefined) return t.skip("this machine has no address but loopback");
    await using plane = await startPlane({ settings: { admin_token: undefined, listen: { host: "0.0.0.0", port: 0 } } });
    const { status, message } = await ask(plane, { host: "localhost" }, address);
    assert.deepEqual([status, /SERVICE_ADMIN_TOKEN/.test(message)], [403, true]);
  },
);

test("the admin token gives access to admin routes only, and belongs to no org", LIMIT, async () => {
  await using plane = await startPlane();
  const admin = { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } };
  assert.equal((await plane.fetch(`${plane.url}/api/robots`, admin)).status, 401);
  assert.equal((await plane.fetch(`${plane.url}/api/me`, admin)).status, 401);
  const listed = await plane.fetch(`${plane.url}${PATH}`, admin);
  assert.deepEqual([listed.status, listed.headers.get("x-service-org-id")], [200, null]);
  assert.equal((await plane.fetch(`${plane.url}/metrics`, admin)).status, 200);
});

test("the server refuses to start beyond loopback without TLS or a trusted proxy", LIMIT, async () => {
  for (const host of ["0.0.0.0", "[::]", "192.0.2.1"]) {
    const program = new Program("packages/server/src/main.ts", ["serve", "--listen", `${host}:0`, "--data", "/nonexistent/roamfleet"]);
    const { code } = await program.ended;
    assert.deepEqual([host, code], [host, 2], program.output);
    assert.match(program.output, /TLS.*--behind-proxy/s);
    assert.doesNotMatch(program.output, /\n\s+at /);
  }
});
