import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { httpRequestText } from "@roamfleet/protocol/link";
import { openFileKey } from "../identity/identity.ts";
import { RobotTime } from "../robot-time.ts";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { httpClient, readText, signedFetcher } from "./request.ts";

const LIMIT = { timeout: 120_000 };

async function serve(t: TestContext, handle: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(handle).listen(0, "127.0.0.1");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const never = new AbortController().signal;

test("sends a GET signed for its path and the server's time, with a Range header", LIMIT, async (t) => {
  const seen: IncomingMessage[] = [];
  const server = await serve(t, (request, response) => {
    seen.push(request);
    response.writeHead(206, { etag: '"x"' }).end("rest");
  });
  const key = openFileKey(temporaryDirectory(t));
  const time = new RobotTime(systemClock);
  time.sync(1_900_000_000_000);
  const fetcher = signedFetcher({ server, robot_id: "rob_1", key, time, http: httpClient(systemClock) });
  const answer = await fetcher.get("/agent/artifacts/abc", { range_start: 100, if_range: '"x"', signal: never });
  assert.deepEqual(
    [answer.status, answer.headers.get("ETag"), answer.headers.get("x-none"), await readText(answer, 100)],
    [206, '"x"', null, "rest"],
  );
  assert.deepEqual([seen[0]!.headers.range, seen[0]!.headers["if-range"]], ["bytes=100-", '"x"']);
  const [robot_id, at, nonce, channel, signature] = seen[0]!.headers.authorization!.replace("RobotSignature ", "").split(":");
  assert.ok(Math.abs(Number(at) - 1_900_000_000_000) < 10_000);
  const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(key.public_key, "base64")]);
  const text = httpRequestText(robot_id!, {
    host: new URL(server).host,
    channel: channel!,
    method: "GET",
    path: "/agent/artifacts/abc",
    at: Number(at),
    nonce: nonce!,
  });
  assert.ok(verify(null, Buffer.from(text), createPublicKey({ key: der, format: "der", type: "spki" }), Buffer.from(signature!, "base64")));
});

test("reading a response fails if the connection closes before its end", LIMIT, async (t) => {
  const server = await serve(t, (_request, response) => {
    response.writeHead(200, { "content-length": "100" });
    response.write("half", () => response.destroy());
  });
  const answer = await httpClient(systemClock)({ method: "GET", url: server, signal: never });
  await assert.rejects(readText(answer, 1_000));
});

test("a request fails after 30 s without data, before and during the response", LIMIT, async (t) => {
  let asked = 0;
  const server = await serve(t, (request, response) => {
    asked += 1;
    if (request.url === "/half") response.writeHead(200, { "content-length": "100" }).write("half");
  });
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const before = assert.rejects(httpClient(clock)({ method: "GET", url: `${server}/mute`, signal: never }), /sent nothing for 30 s/);
  await until("the request", () => asked === 1);
  await clock.advance({ seconds: 31 });
  await before;
  const answer = await httpClient(clock)({ method: "GET", url: `${server}/half`, signal: never });
  const within = assert.rejects(readText(answer, 1_000));
  await until("the wait for the next bytes", () => true);
  await clock.advance({ seconds: 31 });
  await within;
});

test("reading a response fails when its body exceeds the limit or the request is aborted", LIMIT, async (t) => {
  const server = await serve(t, (_request, response) => {
    const write = (): void => void (response.destroyed || response.write("x".repeat(10_000), () => setImmediate(write)));
    write();
  });
  await assert.rejects(
    readText(await httpClient(systemClock)({ method: "GET", url: server, signal: never }), 50_000),
    /larger than 50000 bytes/,
  );
  const aborted = new AbortController();
  const answer = await httpClient(systemClock)({ method: "GET", url: server, signal: aborted.signal });
  setImmediate(() => aborted.abort());
  await assert.rejects(readText(answer, 1e12));
});
