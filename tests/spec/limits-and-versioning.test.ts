import assert from "node:assert/strict";
import { test } from "node:test";
import { Program } from "../processes/process.ts";
import { runCommand } from "../processes/server-command.ts";
import { paths } from "@roamfleet/protocol/paths";
import { startPlane } from "../harness/index.ts";
import { Http } from "./http.ts";
import { anonymous, httpOf, sharedPlane } from "./spec-plane.ts";

const LIMIT = { timeout: 300_000 };
const plane = await sharedPlane();

test("an enrollment key with expires_in_hours 0 never expires, and others expire on time", LIMIT, async () => {
  await using timed = await startPlane({ at: "2030-01-01T00:00:00Z" });
  const [ever, hour] = [await timed.enrollmentKey({ expires_in_hours: 0 }), await timed.enrollmentKey({ expires_in_hours: 1 })];
  const guest = new Http(timed, undefined);
  const enroll = (key: string, byte: number) => guest.post("/agent/enroll", { key, public_key: Buffer.alloc(32, byte).toString("base64") });
  assert.equal((await enroll(hour, 1)).status, 201);
  await timed.stop();
  await timed.advance({ hours: 1 });
  await timed.restart();
  assert.match((await enroll(hour, 2)).refusal, /^403 forbidden: .*expired/);
  assert.equal((await enroll(hour, 1)).status, 200, "a robot that has enrolled is still that robot");
  await timed.stop();
  await timed.advance({ hours: 240 });
  await timed.restart();
  assert.equal((await enroll(ever, 3)).status, 201);
});

test("roamfleet serve --help lists every limit with its default", LIMIT, async () => {
  const program = new Program("packages/server/src/main.ts", ["serve", "--help"]);
  assert.equal((await program.ended).code, 0);
  for (const name of ["token_requests_per_minute=600", "token_burst=1200", "unknown_requests_per_minute=20"])
    assert.ok(program.output.includes(name), name);
});

test("the launcher runs roamfleet swarm, but the server program alone refuses it", LIMIT, async () => {
  const help = await runCommand(["--help"]);
  assert.match(help.output, /^ +swarm +run simulated robots against a server/m);
  const refused = await runCommand(["swarm", "--robots", "1"]);
  assert.deepEqual([refused.code, refused.output.split(":")[0]], [2, "roamfleet"]);
  assert.match(refused.output, /bin\/roamfleet\.mjs swarm/);
  const launched = new Program("bin/roamfleet.mjs", ["swarm", "--help"]);
  assert.equal((await launched.ended).code, 0);
  assert.match(launched.output, /--failure-rate <rate>/);
});

test("the OpenAPI document lists exactly the server's routes under /api/", LIMIT, async () => {
  const { paths: described } = (await anonymous(plane).get("/openapi.json")).body as { paths: Record<string, Record<string, unknown>> };
  const listed = Object.entries(described).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const known = Object.values(paths).map(([method, path]) => `${method} ${path}`);
  assert.deepEqual(listed.toSorted(), known.filter((route) => !route.includes(" /agent/")).toSorted());
  for (const [path, methods] of Object.entries(described)) {
    const unknown = ["PUT", "PATCH", "DELETE"].find((method) => !(method.toLowerCase() in methods));
    if (unknown === undefined || !path.startsWith("/api/") || path.startsWith("/api/admin/")) continue;
    // Use a plain fetch, because this method is deliberately not in the OpenAPI document.
    const reply = await fetch(plane.url + path.replace("{id}", "x"), {
      method: unknown,
      headers: { authorization: `Bearer ${plane.default_org.admin_token}` },
    });
    assert.equal(reply.status, 405, `${unknown} ${path}`);
    const allow = (reply.headers.get("allow") ?? "").split(", ").filter((method) => method !== "HEAD");
    // /api/configs/deployments also matches /api/configs/{id}.
    for (const method of Object.keys(methods)) assert.ok(allow.includes(method.toUpperCase()), `${path} allows ${method}`);
  }
});

test("no API path has a version prefix", LIMIT, async () => {
  assert.match((await httpOf(plane).get("/api/v1/robots")).refusal, /^404 not_found/);
});
