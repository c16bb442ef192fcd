import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { cpSync, rmSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import {
  CONTROL_CHANNEL,
  decodeFrame,
  FrameType,
  LINK_PROTOCOLS,
  LINK_SUBPROTOCOL,
  linkChallengeText,
  messageFrames,
  type ServerMessage,
} from "@roamfleet/protocol/link";
import { LINK_PATH } from "@roamfleet/protocol/paths";
import { WebSocket } from "ws";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 600_000 };
const REPLAYS = promiseSize({ test: 40, full: 1_000 });
const ANSWER_MS_MAX = 60_000;
const LOCK = "agent.lock";

type Hello = Record<string, unknown>;

/** Connects, answers the challenge with `answer(nonce)`, and resolves with the server's response. */
function ask(url: string, answer: (nonce: string) => Hello): Promise<ServerMessage> {
  const socket = new WebSocket(`${url.replace(/^http/, "ws")}${LINK_PATH}`, LINK_SUBPROTOCOL, { perMessageDeflate: false });
  const { promise, resolve, reject } = Promise.withResolvers<ServerMessage>();
  const late = setTimeout(() => reject(new Error("the server did not answer")), ANSWER_MS_MAX);
  socket.on("error", reject);
  socket.on("close", () => reject(new Error("the server closed without a word")));
  socket.on("message", (data: Buffer) => {
    const frame = decodeFrame(data);
    if (frame.type !== FrameType.DATA) return;
    const message = JSON.parse(Buffer.from(frame.payload).toString("utf8")) as ServerMessage;
    if (message.type !== "challenge") return resolve(message);
    for (const one of messageFrames(CONTROL_CHANNEL, Buffer.from(JSON.stringify(answer(message.nonce))))) socket.send(one);
  });
  return promise.finally(() => {
    clearTimeout(late);
    socket.terminate();
  });
}

test("detects a copied state directory, quarantines both machines, and refuses replayed challenges", LIMIT, async (t) => {
  await using server = await ServerProcess.start({
    args: ["token_requests_per_minute=1000000", "token_burst=1000000", "link_accepts_per_second=10000"].flatMap((limit) => [
      "--limit",
      limit,
    ]),
  });
  const { api } = await server.org("Identities");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;

  await using first = new AgentProcess({ url: server.url, key: key ?? "", name: "cart-1" });
  const id = await first.program.until(
    "the robot to be online",
    async () => (await api.listRobots({ query: { status: "online" } })).items[0]?.id,
  );
  const kinds = async (): Promise<string[]> =>
    (await api.listRobotTimeline({ params: { id }, query: { limit: 200 } })).items.map(({ kind }) => kind);
  // A robot that restarts is not a duplicate, even if it did not disconnect in order.
  await first.program.kill();
  first.restart();
  await first.program.until("the robot to be back", () => first.program.output.includes("link is up"));
  assert.ok(!(await kinds()).includes("robot.duplicate_identity"));

  await using second = new AgentProcess({ url: server.url, key: key ?? "", name: "cart-1" }, { start: false });
  cpSync(first.state, second.state, { recursive: true });
  rmSync(path.join(second.state, LOCK), { recursive: true, force: true });
  second.restart();
  await until("the robot to be held", async () => (await api.getRobot({ params: { id } })).data.held_at !== null);
  const { items } = await api.listRobotTimeline({ params: { id }, query: { kind: "robot.duplicate_identity", limit: 200 } });
  const flagged = new Set(items.map(({ data }) => data.run_id));
  assert.deepEqual([items.length, flagged.size], [6, 2]);
  assert.ok((await kinds()).includes("robot.held"));
  for (const { program } of [first, second])
    await program.until("the agent to be refused", () => program.output.includes("an operator must decide"));

  // A new computer is enrolled in place of both machines.
  const replacement = (await api.replaceRobot({ params: { id } })).data;
  await using third = new AgentProcess({ url: server.url, key: replacement.key ?? "", name: "cart-1" });
  await third.program.until(
    "the new computer to be the robot",
    async () => (await api.getRobot({ params: { id } })).data.status === "online",
  );
  assert.equal((await api.getRobot({ params: { id } })).data.held_at, null);

  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const public_key = publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("base64");
  const enrolled = await fetch(`${server.url}/agent/enroll`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ key, public_key }),
  });
  const robot_id = ((await enrolled.json()) as { data: { robot_id: string } }).data.robot_id;
  const hello = (nonce: string): Hello => ({
    type: "hello",
    protocols: [...LINK_PROTOCOLS],
    robot_id,
    signature: sign(
      null,
      Buffer.from(linkChallengeText(robot_id, { nonce, host: new URL(server.url).host, channel: "" })),
      privateKey,
    ).toString("base64"),
    boot_id: "b",
    run_id: "r",
    outbox_id: "o",
    agent_version: "0",
    platform: {},
    kinds: [],
    streams: [],
    generation: 0,
  });
  let overheard: Hello = {};
  assert.equal((await ask(server.url, (nonce) => (overheard = hello(nonce)))).type, "welcome");
  let accepted = 0;
  for (let replay = 0; replay < REPLAYS; replay += 1) {
    const answer = await ask(server.url, () => overheard);
    if (answer.type !== "refused") accepted += 1;
    // After many failures the address is refused before the signature is checked.
    else assert.ok(["bad_signature", "busy"].includes(answer.code), answer.code);
  }
  assert.equal(accepted, 0);
  // A response is not valid for another robot either.
  assert.equal((await ask(server.url, (nonce) => ({ ...hello(nonce), robot_id: id }))).type, "refused");
  provePromise(
    t,
    13,
    `a copied state directory was flagged on both links ${items.length / 2} times, then held; a restart was not; 0 of ${REPLAYS} replayed challenges accepted`,
  );
});
