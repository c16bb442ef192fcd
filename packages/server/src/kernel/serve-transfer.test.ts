import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { unauthorized } from "./fault.ts";
import type { KernelPlane } from "./kernel-plane.ts";
import { watchTransfer } from "./serve-transfer.ts";

const TIMEOUT = { timeout: 30_000 };

/** Starts one request with a client that the test controls, and watches it with checks whose result is `answer`. */
async function start(answer: () => Promise<never>) {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const requested = once(server, "request") as Promise<[IncomingMessage, ServerResponse]>;
  const client = get({ host: "127.0.0.1", port: (server.address() as AddressInfo).port });
  client.on("error", () => undefined);
  const [request, response] = await requested;
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  let checks = 0;
  const held = (): Promise<never> => {
    checks += 1;
    return answer();
  };
  const plane = { clock, authenticators: { recheck: held } } as unknown as KernelPlane;
  const credentials = { headers: { authorization: "Bearer secret" }, ip: "127.0.0.1", peer: "127.0.0.1", site: () => ({}) as never };
  return {
    clock,
    client,
    response,
    socket: request.socket,
    checks: () => checks,
    watch: () =>
      watchTransfer(
        plane,
        { credentials, org_id: "org_a", check: () => Promise.resolve() },
        { raw: request } as never,
        { raw: response } as never,
      ),
    [Symbol.asyncDispose]: async () => {
      client.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

test("does not check a transfer whose client disconnected before the first check", TIMEOUT, async () => {
  await using it = await start(() => Promise.reject(new Error("no database")));
  const closed = once(it.response, "close");
  it.client.destroy();
  await closed;
  it.watch();
  await it.clock.advance({ seconds: 10 });
  assert.equal(it.checks(), 0);
});

test("aborts a transfer when its token is revoked", TIMEOUT, async () => {
  await using it = await start(() => Promise.reject(unauthorized("the token was revoked")));
  const closed = once(it.socket, "close");
  it.watch();
  await it.clock.advance({ seconds: 1 });
  await closed;
  assert.equal(it.checks(), 1);
});

test("keeps the connection if the transfer ends during the check that would abort it", TIMEOUT, async () => {
  const refusal = Promise.withResolvers<never>();
  await using it = await start(() => refusal.promise);
  it.watch();
  await it.clock.advance({ milliseconds: 600 });
  assert.equal(it.checks(), 1);
  const closed = once(it.response, "close");
  it.client.on("response", (response) => response.resume());
  it.response.end();
  await closed;
  refusal.reject(unauthorized("the token was revoked"));
  await it.clock.advance({ seconds: 5 });
  assert.equal(it.socket.destroyed, false);
  assert.equal(it.checks(), 1);
});
