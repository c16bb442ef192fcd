import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { request } from "node:http";
import { connect } from "node:net";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { freshKey } from "./http.ts";
import { anonymous, httpOf, sharedPlane } from "./spec-plane.ts";
import { isAtLeast } from "../harness/log-level.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();
const http = httpOf(plane);
const robot = await plane.enrollRobot();
const release = await plane.release({ tag: "one" });
const MIB = 1024 * 1024;

/** Sends a raw body. Returns the response, even if the server closed the connection before reading the whole body. */
function push(
  method: string,
  path: string,
  headers: Record<string, string | number>,
  write: (sent: ReturnType<typeof request>) => void,
): Promise<{ status: number; code: string; message: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      plane.url + path,
      { method, headers: { authorization: `Bearer ${plane.default_org.admin_token}`, ...headers } },
      (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => (text += part));
        response.on("end", () => {
          const { error } = JSON.parse(text) as { error?: { code: string; message: string } };
          resolve({ status: response.statusCode ?? 0, code: error?.code ?? "", message: error?.message ?? "" });
        });
      },
    );
    sent.on("error", reject);
    write(sent);
  });
}

const raw = (text: string, path = "/api/sites") => http.send("POST", path, { raw: text });

test("invalid JSON of every kind returns 400", LIMIT, async () => {
  for (const text of [
    "{",
    "}",
    "[",
    '{"name":}',
    "{'name':'x'}",
    '{"name":"x",}',
    "undefined",
    "NaN",
    '{"name":"x"} {"name":"y"}',
    '"\\ud800',
    "\u0000",
    " ",
  ]) {
    assert.match((await raw(text)).refusal, /^400 bad_request: /, text);
  }
  assert.match(
    (await http.send("POST", "/api/sites", { raw: Uint8Array.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]) })).refusal,
    /^400 bad_request: the body is not UTF-8/,
  );
  assert.match(
    (await http.send("POST", "/api/sites", { raw: new Uint8Array(Buffer.from('{"name":"utf16"}', "utf16le")) })).refusal,
    /^400 bad_request/,
  );
});

test("JSON with 10,000 nested levels returns 400 in an array, an object or a config value", LIMIT, async () => {
  const deep = (open: string, close: string) => open.repeat(10_000) + close.repeat(10_000);
  assert.match((await raw(deep("[", "]"))).refusal, /^400 bad_request: .*(nested|object)/);
  assert.match((await raw(`${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`)).refusal, /^400 bad_request: .*nested/);
  assert.match((await raw(`{"key":"k","value":${deep("[", "]")}}`, "/api/configs")).refusal, /^400 bad_request: .*nested/);
  const allowed = `{"key":"deep","value":${"[".repeat(60)}${"]".repeat(60)}}`;
  assert.equal((await raw(allowed, "/api/configs")).status, 201);
});

test("a body of 2 MiB returns 413, and a body just below 1 MiB is accepted", LIMIT, async () => {
  const body = JSON.stringify({ name: "x".repeat(2 * MIB) });
  const announced = await push("POST", "/api/sites", { "content-type": "application/json", "content-length": body.length }, (sent) =>
    sent.end(body),
  );
  assert.deepEqual([announced.status, announced.code], [413, "http_error"]);
  const chunked = await push("POST", "/api/sites", { "content-type": "application/json" }, (sent) => {
    sent.write(body.slice(0, MIB));
    sent.end(body.slice(MIB));
  });
  assert.deepEqual([chunked.status, chunked.code], [413, "http_error"]);
  const large = await http.post("/api/configs", { key: "large", value: "x".repeat(MIB - 1_000) });
  assert.equal(large.status, 201);
});

test("NUL and lone surrogates in any position of a body return 400", LIMIT, async () => {
  for (const bad of ["\\u0000", "a\\u0000b", "\\ud800", "\\udc00x", "\\ud800\\ud800"]) {
    assert.match((await raw(`{"name":"${bad}"}`)).refusal, /^400 bad_request/, bad);
    assert.match((await raw(`{"${bad}":"x"}`)).refusal, /^400 bad_request/, bad);
    assert.match((await raw(`{"key":"k","value":[{"a":"${bad}"}]}`, "/api/configs")).refusal, /^400 bad_request/, bad);
    assert.match((await raw(`{"key":"k","value":{"${bad}":1}}`, "/api/configs")).refusal, /^400 bad_request/, bad);
  }
  assert.match((await http.get("/api/sites?q=a%00b")).refusal, /^400 bad_request/);
  assert.match((await http.get("/api/robots/rob_%00")).refusal, /^404 not_found/);
  assert.match((await http.send("DELETE", "/api/sites/%00")).refusal, /^404 not_found/);
});

test("refuses __proto__ in bodies, and stores constructor and prototype as plain data", LIMIT, async () => {
  assert.match((await raw('{"name":"x","__proto__":{"admin":true}}')).refusal, /^400 bad_request: .*__proto__/);
  assert.match(
    (await raw('{"key":"k","value":{"deep":{"__proto__":{"polluted":1}}}}', "/api/configs")).refusal,
    /^400 bad_request: .*__proto__/,
  );
  assert.match((await raw('{"name":"x","constructor":{"prototype":{}}}')).refusal, /^400 bad_request: unknown field constructor/);
  const kept = await raw('{"key":"proto","value":{"constructor":{"prototype":{"polluted":1}},"toString":1}}', "/api/configs");
  assert.deepEqual([kept.status, kept.data.value], [201, { constructor: { prototype: { polluted: 1 } }, toString: 1 }]);
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
  for (const name of ["__proto__", "constructor", "hasOwnProperty"]) {
    assert.match((await http.get(`/api/sites?${name}=1`)).refusal, /^400 bad_request/, name);
    assert.match((await http.get(`/api/robots/${name}`)).refusal, /^404 not_found/, name);
  }
});

test("a compressed body returns 415, even if it is a decompression bomb", LIMIT, async () => {
  for (const content of [gzipSync('{"name":"x"}'), gzipSync(Buffer.alloc(100 * MIB))]) {
    const reply = await http.send("POST", "/api/sites", { raw: new Uint8Array(content), headers: { "content-encoding": "gzip" } });
    assert.match(reply.refusal, /^415 http_error/);
  }
  const disguised = await http.send("POST", "/api/sites", { raw: new Uint8Array(gzipSync('{"name":"x"}')) });
  assert.match(disguised.refusal, /^400 bad_request/);
});

test("ids of another kind or of another org return 404 in path, query and body", LIMIT, async () => {
  const other = await plane.org();
  const foreign = { robot: await other.enrollRobot(), release: await other.release(), fleet: await other.homeFleet() };
  const deploy = (body: object) => http.post("/api/deployments", body, freshKey());
  for (const id of [foreign.robot.id, release.id, await plane.homeFleet()]) {
    assert.match((await http.get(`/api/robots/${id}`)).refusal, /^404 not_found: robot /);
    assert.match((await deploy({ release: release.id, robot_id: id })).refusal, /^404 not_found: robot /);
    assert.match((await http.get(`/api/deployments?robot_id=${id}`)).refusal, /^404 not_found: robot /);
  }
  assert.match((await deploy({ release: foreign.release.id, robot_id: robot.id })).refusal, /^404 not_found: release /);
  assert.match((await deploy({ release: foreign.release.tag, robot_id: robot.id })).refusal, /^404 not_found: release /);
  assert.match((await deploy({ release: release.id, fleet_id: foreign.fleet })).refusal, /^404 not_found: fleet /);
  assert.match(
    (await http.post("/api/configs", { key: "k", value: 1, scope: "robot", scope_id: foreign.robot.id })).refusal,
    /^404 not_found: robot /,
  );
  assert.match(
    (await http.send("PATCH", `/api/robots/${robot.id}`, { body: { fleet_id: foreign.fleet } })).refusal,
    /^404 not_found: fleet /,
  );
});

test("an invalid time or a time without a time zone returns 400 with the field's name", LIMIT, async () => {
  for (const scheduled_at of [
    "2030-01-01T00:00:00",
    "2030-01-01",
    "now",
    "",
    "1893456000",
    1_893_456_000,
    "2030-02-30T25:00:00Z",
    "2030-01-01T00:00:00+99:99",
    "+200000-01-01T00:00:00Z",
  ]) {
    assert.match(
      (await http.post("/api/deployments", { release: "one", robot_id: robot.id, scheduled_at }, freshKey())).refusal,
      /^400 bad_request: .*scheduled_at/,
      String(scheduled_at),
    );
  }
  const far = new Date(Date.now() + 400 * 86_400_000).toISOString();
  assert.match(
    (await http.post("/api/deployments", { release: "one", robot_id: robot.id, scheduled_at: far }, freshKey())).refusal,
    /^400 bad_request: scheduled_at/,
  );
});

test("a deployment with a scheduled time in the past is dispatched immediately", LIMIT, async () => {
  const { data } = await http.post(
    "/api/deployments",
    { release: "one", robot_id: robot.id, scheduled_at: "2000-01-01T00:00:00Z" },
    freshKey(),
  );
  await plane.until("its end", async () => (await http.get(`/api/deployments/${String(data.id)}`)).data.status === "applied");
  const [first] = (await http.get(`/api/deployments/${String(data.id)}/events`)).items;
  assert.match(String(first?.message), /has passed/);
});

test("nothing is kept of an aborted upload, and the same release can be pushed again", LIMIT, async () => {
  const bytes = Buffer.alloc(3 * MIB, "killed");
  const made = await plane.release({ tag: "killed", bytes, upload: false });
  const path = `/api/releases/${made.id}/artifact`;
  for (const headers of [{ "content-length": bytes.length }, {}]) {
    await new Promise<void>((resolve) => {
      const sent = request(plane.url + path, {
        method: "PUT",
        headers: { authorization: `Bearer ${plane.default_org.admin_token}`, "content-type": "application/octet-stream", ...headers },
      });
      sent.on("error", () => resolve());
      sent.write(bytes.subarray(0, 2 * MIB), () => sent.destroy());
      sent.on("close", () => resolve());
    });
    assert.equal((await http.get(`/api/releases/${made.id}`)).data.artifact_state, "awaiting_upload");
  }
  assert.match((await http.get(path)).refusal, /^404 not_found: artifact/);
  const uploaded = await plane.upload(made.id, bytes);
  assert.equal(uploaded.artifact_state, "stored");
  const back = await fetch(plane.url + path, { headers: { authorization: `Bearer ${plane.default_org.admin_token}` } });
  assert.equal(hash("sha256", Buffer.from(await back.arrayBuffer())), made.artifact_sha256);
});

test("an artifact whose bytes or size differ from its release returns 400 and is not stored", LIMIT, async () => {
  const made = await plane.release({ tag: "exact", bytes: "exactly this", upload: false });
  const path = `/api/releases/${made.id}/artifact`;
  for (const content of ["exactly that", "exactly this and more", "exactly", ""]) {
    const whole = await push("PUT", path, { "content-type": "application/octet-stream", "content-length": content.length }, (sent) =>
      sent.end(content),
    );
    const chunked = await push("PUT", path, { "content-type": "application/octet-stream", "transfer-encoding": "chunked" }, (sent) =>
      sent.end(content),
    );
    assert.deepEqual([content, whole.status, chunked.status], [content, 400, 400], `${whole.message}; ${chunked.message}`);
  }
  assert.equal((await http.get(`/api/releases/${made.id}`)).data.artifact_state, "awaiting_upload");
  assert.equal((await plane.upload(made.id, Buffer.from("exactly this"))).artifact_state, "stored");
});

test("invalid HTTP gets an error response or a closed connection, and does not affect the server", LIMIT, async () => {
  const { port } = new URL(plane.url);
  const say = (text: string): Promise<string> =>
    new Promise((resolve) => {
      const socket = connect(Number(port), "127.0.0.1", () => socket.write(text));
      let answer = "";
      socket.setEncoding("utf8").on("data", (part: string) => (answer += part));
      socket.on("error", () => {});
      socket.on("close", () => resolve(answer));
    });
  assert.match(await say("\u0016\u0003\u0001 not http\r\n\r\n"), /^HTTP\/1\.1 400 .*"code":"bad_request"/s);
  assert.match(await say(`GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(100_000)}\r\n\r\n`), /^HTTP\/1\.1 431 .*"code":"http_error"/s);
  assert.match(
    await say("POST /api/sites HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
    /^HTTP\/1\.1 400 /,
  );
  assert.equal((await anonymous(plane).get("/healthz")).status, 200);
});

test("hostile text is returned unchanged and never interpreted as SQL or HTML", LIMIT, async () => {
  for (const name of [
    "'; drop table site; --",
    '"><script>alert(1)</script>',
    "${jndi:ldap://x}",
    "\\",
    "%s%n",
    "../../etc/passwd",
    "\u202egnp.exe",
    "a".repeat(199) + "🤖",
  ]) {
    const made = await http.post("/api/sites", { name });
    if (made.status === 201) assert.equal((await http.get(`/api/sites/${String(made.data.id)}`)).data.name, name);
    else assert.match(made.refusal, /^400 bad_request: .*name/);
  }
  const reply = await http.get("/api/robots/%3Cscript%3Ealert(1)%3C%2Fscript%3E");
  assert.match(reply.headers.get("content-type") ?? "", /^application\/json/);
  assert.equal(reply.headers.get("x-content-type-options"), "nosniff");
});

test("no request of this test file has caused a server error", LIMIT, async () => {
  assert.deepEqual(
    plane.logged.filter((line) => isAtLeast("error", line)),
    [],
  );
});
