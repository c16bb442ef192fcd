import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { Webhook } from "standardwebhooks";
import { Networks } from "../../../kernel/networks.ts";
import { guardedPost, isPublicAddress, POST_TIMEOUT_MS } from "./guarded-post.ts";
import { startReceiver } from "./testing/receiver.ts";
import { newSigningSecret, signatureHeaders } from "./webhook-signature.ts";

const TIMEOUT = { timeout: 60_000 };
const LOOPBACK = new Networks(["127.0.0.0/8"]);
const NONE = new Networks([]);

const start = () => new SimulatedClock({ at: "2030-01-01T00:00:00Z" });

test("sends the body and headers to the address that was resolved", TIMEOUT, async () => {
  await using it = await startReceiver();
  const names: string[] = [];
  const resolve = (host: string): Promise<string[]> => {
    names.push(host);
    return Promise.resolve(["127.0.0.1"]);
  };
  const message = { url: `http://hooks.test:${it.port}/secret`, headers: { "webhook-id": "dlv_1" }, body: '{"a":"ü"}' };
  assert.deepEqual(await guardedPost({ clock: start(), allowed: LOOPBACK, resolve }, message), { delivered: true, detail: "status 204" });
  assert.deepEqual(names, ["hooks.test"]);
  assert.deepEqual(
    it.got.map(({ headers, body }) => [headers.host, headers["webhook-id"], body]),
    [[`hooks.test:${it.port}`, "dlv_1", '{"a":"ü"}']],
  );
});

test("refuses addresses that are not public, literal or resolved, and never connects", TIMEOUT, async () => {
  let connections = 0;
  await using it = await startReceiver((_, response) => void response.end());
  it.server.on("connection", () => (connections += 1));
  const resolve = (): Promise<string[]> => Promise.resolve(["93.184.215.14", "127.0.0.1"]);
  for (const host of ["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "mixed.test"]) {
    const message = { url: `http://${host}:${it.port}/`, headers: {}, body: "{}" };
    assert.deepEqual(await guardedPost({ clock: start(), allowed: NONE, resolve }, message), {
      delivered: false,
      detail: "the address is not allowed",
    });
  }
  assert.equal(connections, 0);
});

test("does not follow a redirect, and does not read an endless body", TIMEOUT, async () => {
  const paths: (string | undefined)[] = [];
  await using it = await startReceiver((request, response) => {
    paths.push(request.url);
    if (request.url === "/redirect") return void response.writeHead(302, { location: "/target" }).end();
    response.writeHead(200);
    const more = (): void => {
      while (!response.destroyed && response.write("x".repeat(65_536)));
    };
    response.on("drain", more);
    more();
  });
  const send = (path: string) =>
    guardedPost({ clock: start(), allowed: LOOPBACK }, { url: `http://127.0.0.1:${it.port}${path}`, headers: {}, body: "{}" });
  assert.deepEqual(await send("/redirect"), { delivered: false, detail: "status 302" });
  assert.deepEqual(await send("/endless"), { delivered: true, detail: "status 200" });
  assert.deepEqual(paths, ["/redirect", "/endless"]);
});

test("gives up when the receiver or the name server does not respond in time", TIMEOUT, async () => {
  const { promise: requested, resolve: onRequest } = Promise.withResolvers<void>();
  await using it = await startReceiver(() => onRequest());
  const late = { delivered: false, detail: "the receiver did not respond in time" };
  const clock = start();
  const hanging = guardedPost({ clock, allowed: LOOPBACK }, { url: `http://127.0.0.1:${it.port}/`, headers: {}, body: "{}" });
  await requested;
  await clock.advance({ milliseconds: POST_TIMEOUT_MS });
  assert.deepEqual(await hanging, late);
  const { promise: never } = Promise.withResolvers<string[]>();
  const unresolved = guardedPost({ clock, allowed: NONE, resolve: () => never }, { url: "http://hooks.test/", headers: {}, body: "{}" });
  await clock.advance({ milliseconds: POST_TIMEOUT_MS });
  assert.deepEqual(await unresolved, late);
});

test("an error does not contain the URL", TIMEOUT, async () => {
  const closed = await startReceiver(() => {});
  await closed[Symbol.asyncDispose]();
  const url = `http://127.0.0.1:${closed.port}/services/secret`;
  assert.deepEqual(await guardedPost({ clock: start(), allowed: LOOPBACK }, { url, headers: {}, body: "{}" }), {
    delivered: false,
    detail: "the connection failed: ECONNREFUSED",
  });
});

test("private, loopback, link-local, metadata and embedded IPv4 addresses are not public", () => {
  for (const address of ["8.8.8.8", "172.32.0.1", "2606:4700::1111"]) assert.equal(isPublicAddress(address), true, address);
  const not_public =
    "0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.2 169.254.169.254 172.31.255.255 192.168.1.1 224.0.0.1 255.255.255.255 :: ::1 ::ffff:10.0.0.1 " +
    "::ffff:a00:1 fd00:ec2::254 fe80::1 64:ff9b::a00:1 2002:a00:1:: 2001::1 ff02::1 name";
  for (const address of [...not_public.split(" "), ""]) assert.equal(isPublicAddress(address), false, address);
});

test("connects to the checked address although the name has another one at the second lookup", TIMEOUT, async () => {
  let requests = 0;
  await using it = await startReceiver((_, response) => {
    requests += 1;
    response.end();
  });
  const answers = [["127.0.0.1"], ["127.0.0.2"]];
  const resolve = (): Promise<string[]> => Promise.resolve(answers.shift() ?? []);
  const message = { url: `http://rebinding.test:${it.port}/`, headers: {}, body: "{}" };
  const only_first = new Networks(["127.0.0.1/32"]);
  assert.deepEqual(await guardedPost({ clock: start(), allowed: only_first, resolve }, message), { delivered: true, detail: "status 200" });
  assert.deepEqual(await guardedPost({ clock: start(), allowed: only_first, resolve }, message), {
    delivered: false,
    detail: "the address is not allowed",
  });
  assert.equal(requests, 1);
});

test("an abort ends a request that is in progress", TIMEOUT, async () => {
  const { promise: requested, resolve: onRequest } = Promise.withResolvers<void>();
  await using it = await startReceiver(() => onRequest());
  const stopping = new AbortController();
  const message = { url: `http://127.0.0.1:${it.port}/`, headers: {}, body: "{}" };
  const attempt = guardedPost({ clock: start(), allowed: LOOPBACK, signal: stopping.signal }, message);
  await requested;
  stopping.abort();
  assert.deepEqual(await attempt, { delivered: false, detail: "the server stopped" });
});

test("a library of Standard Webhooks accepts the signature, and refuses it for another body", () => {
  const secret = newSigningSecret();
  const body = '{"type":"incident.opened","name":"ü"}';
  const headers = signatureHeaders(secret, { id: "dlv_1", at: new Date(), body });
  const library = new Webhook(secret);
  assert.deepEqual(library.verify(body, headers), JSON.parse(body));
  assert.throws(() => library.verify(body.replace("ü", "u"), headers), /No matching signature/);
});
