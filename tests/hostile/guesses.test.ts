import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import { CONTROL_CHANNEL, decodeFrame, type Frame, LINK_SUBPROTOCOL, type Refused } from "@roamfleet/protocol/link";
import { LINK_PATH } from "@roamfleet/protocol/paths";
import { WebSocket } from "ws";
import { authorizeGet, makeIdentity } from "../../packages/swarm/src/testing/identity.ts";
import { startPlane } from "../harness/index.ts";
import { controlFrame, helloOf, openLink, RawRobot } from "./raw-robot.ts";

const TIMEOUT = { timeout: 120_000 };
const GUESSES = 20;
const AT = "2030-01-01T00:00:00Z";

test("rate-limits requests with forged robot signatures by address without delaying the real robot", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { id, identity } = await plane.enrollRobot({ online: false });
  const path = "/agent/configs/default";
  const ask = async (by = identity): Promise<number> => {
    const authorization = authorizeGet(by, id, { url: plane.url, path, at: plane.clock.now().getTime() });
    return (await plane.fetch(plane.url + path, { headers: { authorization } })).status;
  };
  const forger = makeIdentity();
  for (let i = 0; i < GUESSES; i += 1) assert.equal(await ask(forger), 401);
  assert.equal(await ask(forger), 429);
  assert.notEqual(await ask(), 429);
  assert.notEqual(await ask(), 401);
});

test("rate-limits connections with wrong robot signatures for minutes without delaying the real robot", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { id, identity } = await plane.enrollRobot({ online: false });
  const answerOf = ({ channel, payload }: Frame): unknown[] => {
    assert.equal(channel, CONTROL_CHANNEL);
    const { code, retry_after_ms } = JSON.parse(Buffer.from(payload).toString()) as Partial<Refused>;
    return [code, retry_after_ms];
  };
  const answers: unknown[] = [];
  for (let i = 0; i <= GUESSES; i += 1) {
    const { socket, challenge } = await openLink(plane.url);
    const answered = once(socket, "message") as Promise<[Buffer]>;
    socket.send(controlFrame(helloOf(id, makeIdentity(), challenge)));
    answers.push(answerOf(decodeFrame((await answered)[0])));
    socket.terminate();
  }
  assert.deepEqual(answers, [...Array.from({ length: GUESSES }, () => ["bad_signature", undefined]), ["bad_signature", 300_000]]);
  const raw = await RawRobot.connect(plane.url, { id, identity });
  assert.notEqual(plane.session(id), undefined);
  await raw.end();
});

test("unauthenticated connections from one address can use at most half of the slots", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT, limits: { unauthenticated_links_max: 20 } });
  const open = async (localAddress: string): Promise<WebSocket | number> => {
    const socket = new WebSocket(plane.url.replace(/^http/, "ws") + LINK_PATH, LINK_SUBPROTOCOL, { localAddress });
    socket.on("error", () => {});
    const refused = once(socket, "unexpected-response").then(([, response]) => (response as IncomingMessage).statusCode ?? 0);
    return Promise.race([once(socket, "open").then(() => socket), refused]);
  };
  const silent: (WebSocket | number)[] = [];
  for (let i = 0; i < 15; i += 1) silent.push(await open("127.0.0.1"));
  assert.deepEqual(
    silent.filter((answer) => typeof answer === "number"),
    [503, 503, 503, 503, 503],
  );
  const other = await open("127.0.0.2");
  assert.ok(other instanceof WebSocket);
  for (const socket of [...silent, other]) if (socket instanceof WebSocket) socket.terminate();
});
