import assert from "node:assert/strict";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { LogRecord } from "@roamfleet/protocol/routes";
import { WebSocket } from "ws";
import { NatsServer, SKIP_NATS } from "../../packages/server/src/engines/bus/testing/nats-server.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { ADMIN_TOKEN, type Harness, startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { OpenStream } from "../harness/open-stream.ts";
import type { Proxy } from "../harness/proxy.ts";
import { RobotSurroundings } from "../harness/robot-surroundings.ts";
import { lineTo, secondNode, type SecondNode } from "../harness/second-node.ts";
import { STREAM_NAMES, streamTarget } from "../harness/stream-target.ts";
import { opened, type Opened, refused } from "../spec/web-socket.ts";

const OPTIONS = { skip: SKIP_NATS, timeout: 240_000 };
const SUBPROTOCOL = "roamfleet.shell.v1";
const NODES = { listen: { host: "127.0.0.1", port: 0 }, address: undefined };

/** Two servers on one database. A robot with every kind of stream is connected to the first; viewers connect to the second. */
class TwoNodes implements AsyncDisposable {
  readonly first: Harness;
  readonly second: SecondNode;
  readonly robot: LiveRobot;
  readonly around: RobotSurroundings;
  /** The proxy between the two servers. */
  readonly line: Proxy;
  readonly #own: AsyncDisposableStack;

  private constructor(own: AsyncDisposableStack, parts: Pick<TwoNodes, "first" | "second" | "robot" | "around" | "line">) {
    this.#own = own;
    this.first = parts.first;
    this.second = parts.second;
    this.robot = parts.robot;
    this.around = parts.around;
    this.line = parts.line;
  }

  static async start(t: TestContext): Promise<TwoNodes> {
    await using own = new AsyncDisposableStack();
    const nats = own.use(await NatsServer.start());
    const first = own.use(await startPlane({ nodes: 1, settings: { bus: nats.address(), nodes: NODES } }));
    const second = own.use(await secondNode(first));
    const line = own.use(await lineTo(first, first));
    const around = await RobotSurroundings.start(t);
    const robot = own.use(await LiveRobot.start(first, { robot: around.robot }));
    // The other server finds the robot's server in the database, where a new connection is written a moment after the robot's welcome.
    await until("the robot to be online on both servers", async () => {
      const { data } = await first.api.getRobot({ params: { id: robot.id } });
      return data.status === "online";
    });
    return new TwoNodes(own.move(), { first, second, robot, around, line });
  }

  get token(): string {
    return this.first.default_org.admin_token;
  }

  /** URL of a stream on the second server. */
  url(name: (typeof STREAM_NAMES)[number], query: Record<string, string> = { token: this.token }): string {
    return this.second.url + streamTarget(name, this.robot.id, { ...this.around.query(name), ...query });
  }

  open(name: (typeof STREAM_NAMES)[number], token = this.token): Promise<OpenStream> {
    return OpenStream.open(this.second.url, name, this.robot.id, this.around, { query: { token } });
  }

  async relayed(): Promise<number> {
    const answer = await fetch(`${this.second.url}/metrics`, { headers: { "x-service-admin-token": ADMIN_TOKEN } });
    return Number(/^roamfleet_streams_relayed (\d+)$/m.exec(await answer.text())?.[1]);
  }

  /** The audit entries of streams, oldest first. */
  async auditEntries(): Promise<{ action: string; request_id: string; status: number | null; path: string; reason: unknown }[]> {
    const { items } = await this.first.api.listAudit({ query: { limit: 200 } });
    const of_streams = items.filter(({ action }) => action.startsWith("stream.")).toReversed();
    return of_streams.map(({ action, request_id, status, path, data }) => ({ action, request_id, status, path, reason: data.reason }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#own.disposeAsync();
  }
}

test("a viewer on one server receives every kind of stream of a robot on another server", OPTIONS, async (t) => {
  await using it = await TwoNodes.start(t);
  assert.equal(it.second.plane.link.session(it.robot.id), undefined);
  const streams = await Promise.all(STREAM_NAMES.map((name) => it.open(name)));
  for (const stream of streams) await stream.round();
  assert.equal(await it.relayed(), STREAM_NAMES.length);
  assert.equal(it.line.open, STREAM_NAMES.length);
  await Promise.all(streams.map((stream) => stream.end()));
  await until("no stream goes through any more", async () => (await it.relayed()) === 0 && it.line.open === 0);

  // A shell until its exit, including messages of the shell protocol.
  const answered: string[] = [];
  const shell = new WebSocket(it.url("shell").replace(/^http/, "ws"), [SUBPROTOCOL], { headers: { "user-agent": "a viewer" } });
  shell.on("upgrade", ({ headers }) => answered.push(String(headers["x-request-id"]), String(headers["x-service-org-id"])));
  let shown = "";
  const controls: unknown[] = [];
  shell.on("message", (data: Buffer, binary) => void (binary ? (shown += data.toString()) : controls.push(JSON.parse(data.toString()))));
  const closed = once(shell, "close") as Promise<[number, Buffer]>;
  await once(shell, "open");
  assert.equal(shell.protocol, SUBPROTOCOL);
  shell.send(JSON.stringify({ type: "resize", cols: 99, rows: 33 }));
  shell.send(Buffer.from("stty size\r"));
  await until("the new size", () => shown.includes("33 99"));
  shell.send(Buffer.from("exit 7\r"));
  const [code, reason] = await closed;
  assert.deepEqual([code, reason.toString(), controls], [1000, "exit 7", [{ type: "exit", code: 7 }]]);

  // The audit has one entry per viewer.
  const both = STREAM_NAMES.length + 1;
  const entries = await until("every end in the audit", async () => {
    const all = await it.auditEntries();
    return all.filter(({ action }) => action === "stream.closed").length === both && all;
  });
  assert.equal(entries.length, 2 * both);
  assert.equal(answered[1], it.first.default_org.id);
  assert.deepEqual(
    entries.filter(({ request_id }) => request_id === answered[0]).map(({ action, path, reason }) => [action, path, reason]),
    [
      ["stream.opened", `/api/robots/${it.robot.id}/shell/ws`, undefined],
      ["stream.closed", `/api/robots/${it.robot.id}/shell/ws`, "ended"],
    ],
  );
});

test("streams to a robot on another server are refused or closed if the token has no access", OPTIONS, async (t) => {
  await using it = await TwoNodes.start(t);
  const stranger = await it.first.org();
  assert.equal((await refused(it.url("logs", { token: stranger.admin_token }))).status, 404);
  assert.equal((await refused(it.url("logs", { token: "unknown" }))).status, 401);
  assert.equal((await refused(it.url("logs", { token: it.token, color: "red" }))).status, 400);
  assert.equal(it.line.accepted, 0);

  const { ticket } = (await it.first.api.createStreamTicket({ body: { stream: "logs", robot_id: it.robot.id } })).data;
  assert.ok(ticket !== null);
  const by_ticket = await opened(it.url("logs", { ticket }));
  assert.equal((await refused(it.url("logs", { ticket }))).status, 401);
  by_ticket.ws.close();
  await by_ticket.closed;

  const issued = (await it.first.api.createToken({ body: { label: "short-lived", role: "viewer" } })).data;
  assert.ok(issued.token !== null);
  const watching = await it.open("logs", issued.token);
  await watching.round();
  await it.first.api.revokeToken({ params: { id: issued.id } });
  assert.equal((await watching.closed).code, 4401);
  const last = await until("its end", async () => (await it.auditEntries()).find(({ status }) => status === 4401));
  assert.equal(last.reason, "token_revoked");

  // Without its link, the robot is offline on every server.
  const left = await it.open("camera");
  const camera = it.url("camera");
  await it.robot.stop();
  assert.equal((await left.closed).code, 4409);
  const late = await opened(camera);
  assert.deepEqual(await late.closed, { code: 4409, reason: "agent offline" });
});

test("viewers are asked to retry when a server or the connection between two servers fails", OPTIONS, async (t) => {
  await using it = await TwoNodes.start(t);
  const torn = await it.open("logs");
  await torn.round();
  it.line.reset();
  assert.deepEqual(await torn.closed, { code: 1013, reason: "the robot's server is unreachable" });

  // If the robot's server is unreachable, viewers get the same response as for an offline robot.
  it.line.refuse(true);
  assert.deepEqual(await (await opened(it.url("camera"))).closed, { code: 4409, reason: "agent offline" });
  it.line.refuse(false);

  // Only the node's row in the database shows that it is dead. Its connections stay open.
  const frozen = await it.open("logs");
  await frozen.round();
  await it.first.db.run(sql`update node set address = null where id = ${it.first.plane.node.id}`);
  assert.deepEqual(await frozen.closed, { code: 1013, reason: "the robot's server is unreachable" });
  await it.first.db.run(sql`update node set address = ${`127.0.0.1:${it.line.port}`} where id = ${it.first.plane.node.id}`);

  const shell = await it.open("shell");
  await shell.round();
  await it.first.stop();
  assert.deepEqual(await shell.closed, { code: 1013, reason: "the server is stopping" });
});

test("a stopping server closes the streams of its viewers to robots on other servers, and notifies those servers", OPTIONS, async (t) => {
  await using it = await TwoNodes.start(t);
  const stream = await it.open("logs");
  await stream.round();
  const stopped = it.second[Symbol.asyncDispose]();
  assert.deepEqual(await stream.closed, { code: 1013, reason: "the server is stopping" });
  const closed = await until("its end", async () => (await it.auditEntries()).find(({ action }) => action === "stream.closed"));
  assert.equal(closed.reason, "connection_lost");
  await stopped;
});

const seqsOf = (frames: readonly (string | Buffer)[], robot_id: string): number[] =>
  frames.map((frame) => JSON.parse(String(frame)) as LogRecord).flatMap((record) => (record.robot_id === robot_id ? [record.seq] : []));

test("a fleet's log has the records of robots on all servers once and in order", OPTIONS, async (t) => {
  await using it = await TwoNodes.start(t);
  const { first, second } = it;
  const fleet_id = await first.homeFleet();
  const here = await first.enrollRobot({ fleet_id });
  const there = await first.enrollRobot({ fleet_id, online: false });
  first.swarm.url = second.url;
  await there.connect();
  const robots = [here, there];
  let count = 0;
  const logAll = (): void => {
    for (let i = 0; i < 20; i += 1) {
      count += 1;
      for (const robot of robots) robot.log(`record ${count}`);
    }
  };
  logAll();
  const path = `/api/fleets/${fleet_id}/logs/ws?token=${it.token}`;
  const viewers = await Promise.all([first.url, second.url].map((url) => opened(url + path)));
  const complete = (): Promise<unknown> =>
    until("each has every record of both once, in order", () =>
      viewers.every(({ frames }) =>
        robots.every(({ id }) => {
          const seqs = seqsOf(frames, id);
          return seqs.length >= count && seqs.every((seq, i) => seq === i + 1);
        }),
      ),
    );
  await complete();
  logAll();
  await complete();
  // Records logged while the servers are disconnected are not lost.
  it.line.reset();
  logAll();
  await complete();
  it.line.refuse(true);
  it.line.reset();
  logAll();
  it.line.refuse(false);
  await complete();
  const [, { ws, frames, closed }] = viewers as [Opened, Opened];
  ws.close();
  await closed;
  const ended = frames.length;
  logAll();
  await until("the other still has both", () => seqsOf(viewers[0]!.frames, there.id).length === count);
  assert.equal(frames.length, ended);
  await until("no more requests", () => it.line.open === 0);
  viewers[0]!.ws.close();
});
