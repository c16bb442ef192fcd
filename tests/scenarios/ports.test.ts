import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { startLoopbackServer } from "../../packages/agent/src/testing/loopback-server.ts";
import { RfHome, type RfResult } from "../../packages/cli/src/testing/run-rf.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";

const TIMEOUT = { timeout: 300_000 };
const MIB = 1024 * 1024;

const echoService = () => startLoopbackServer((socket) => socket.pipe(socket));

/** Starts `rf robots forward` and returns it with the ports that it printed. */
async function forward(plane: Harness, home: RfHome, args: string[], token = plane.default_org.admin_token) {
  let output = "";
  let stop = (): void => {};
  let is_over = false;
  const running = home.run(["robots", "forward", ...args], {
    env: { ROAMFLEET_BASE_URL: plane.url, ROAMFLEET_TOKEN: token },
    on_output: (child, text) => {
      output += text;
      stop = () => child.kill("SIGINT");
    },
  });
  const ended = running.finally(() => (is_over = true));
  const ports = (): number[] => Array.from(output.matchAll(/127\.0\.0\.1:(\d+) →/g), ([, port]) => Number(port));
  await plane.until("rf to listen, or to end", () => is_over || ports().length === args.length - 1);
  return {
    ports: ports(),
    says: (text: string): Promise<unknown> =>
      plane
        .until(`rf to say ${text}`, () => output.includes(text))
        .catch((error: unknown) => Promise.reject(new Error(`${String(error)}\n${output}`))),
    ended,
    get output() {
      return output;
    },
    async [Symbol.asyncDispose]() {
      stop();
      await ended;
    },
  };
}

const connectTo = (port: number) => net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });

/** Sends a text and FIN, and reads the response to its end, like `nc -N`. */
async function ask(port: number, question: string | Buffer): Promise<Buffer> {
  const socket = connectTo(port);
  socket.end(question);
  const parts: Buffer[] = [];
  for await (const part of socket) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

const resetOf = async (socket: net.Socket): Promise<string> => {
  socket.resume();
  const [error] = (await once(socket, "error")) as [NodeJS.ErrnoException];
  return error.code ?? "";
};

const endOf = async (running: { ended: Promise<RfResult> }): Promise<[number | null, string]> => {
  const { code, stderr } = await running.ended;
  return [code, stderr];
};

test("rf forwards concurrent connections to services of a robot and records each in the timeline", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane);
  await using home = await RfHome.make();
  await using echo = await echoService();
  // A service that ends its sending side first and still reads.
  let heard = "";
  await using speaker = await startLoopbackServer((socket) => {
    socket.end("I am done");
    socket.on("data", (bytes) => (heard += String(bytes)));
  });
  await using running = await forward(plane, home, [robot.id, `0:${echo.port}`, `0:localhost:${speaker.port}`]);
  const [echo_port = 0, speaker_port = 0] = running.ports;

  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => ask(echo_port, Buffer.alloc(100_000, i))));
  answers.forEach((answer, i) => assert.deepEqual([answer.length, answer.every((byte) => byte === i)], [100_000, true], `connection ${i}`));

  const socket = connectTo(speaker_port);
  const parts: Buffer[] = [];
  for await (const part of socket.iterator({ destroyOnReturn: false })) parts.push(part as Buffer);
  assert.equal(String(Buffer.concat(parts)), "I am done");
  socket.end("and I am not");
  await plane.until("the service to hear the rest", () => heard === "and I am not");

  const closed = async () => {
    const { items } = await plane.api.listRobotTimeline({ params: { id: robot.id }, query: { limit: 200 } });
    return items.filter(({ kind }) => kind.startsWith("tunnel."));
  };
  await plane.until("every tunnel to be recorded", async () => (await closed()).length === 42);
  const entries = await closed();
  const big = entries.find(({ kind, data }) => kind === "tunnel.closed" && data["port"] === echo.port);
  assert.deepEqual([big?.data["bytes_to_robot"], big?.data["bytes_from_robot"], big?.actor.type], [100_000, 100_000, "org_token"]);
  assert.equal(entries.filter(({ kind }) => kind === "tunnel.opened").length, 21);
});

test("a forwarded connection that the robot refuses affects neither other connections nor rf", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane);
  await using home = await RfHome.make();
  await using echo = await echoService();
  const gone = await startLoopbackServer(() => {});
  await gone[Symbol.asyncDispose]();
  await using running = await forward(plane, home, [robot.id, `0:${echo.port}`, `0:${gone.port}`, `0:10.9.8.7:80`]);
  const [echo_port = 0, refused_port = 0, forbidden_port = 0] = running.ports;
  const steady = connectTo(echo_port);
  steady.write("before");
  await once(steady, "data");
  assert.equal(await resetOf(connectTo(refused_port)), "ECONNRESET");
  await running.says(`127.0.0.1:${gone.port} refused the connection`);
  assert.equal(await resetOf(connectTo(forbidden_port)), "ECONNRESET");
  await running.says("does not allow 10.9.8.7:80");
  steady.write("after");
  assert.equal(String((await once(steady, "data"))[0]), "after");
  steady.destroy();
});

test("port forwarding by rf works again after the robot was disconnected and reconnected", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane);
  await using home = await RfHome.make();
  await using echo = await echoService();
  const running = await forward(plane, home, [robot.id, `0:${echo.port}`]);
  const [port = 0] = running.ports;
  const held = connectTo(port);
  held.write("hello");
  await once(held, "data");
  robot.line.refuse(true);
  robot.line.reset();
  assert.equal(await resetOf(held), "ECONNRESET");
  await running.says("agent offline");
  robot.line.refuse(false);
  await robot.back();
  await plane.until("the tunnel to work", async () => String(await ask(port, "again").catch(() => "")) === "again");
  await running.says("the robot is online again");
  await running[Symbol.asyncDispose]();
  assert.equal((await endOf(running))[0], 130);
});

test("port forwarding is refused without permission, if disabled on the robot, and for invalid arguments", TIMEOUT, async () => {
  await using plane = await startPlane();
  const streams = { shell: true, camera: true, topics: true, forward: false, files: true };
  await using robot = await LiveRobot.start(plane, { robot: { streams } });
  await using home = await RfHome.make();
  await using running = await forward(plane, home, [robot.id, "0:9"]);
  assert.equal(await resetOf(connectTo(running.ports[0] ?? 0)), "ECONNRESET");
  await running.says("disabled on the robot");

  const viewer = await forward(plane, home, [robot.id, "0:9"], await plane.token({ role: "viewer" }));
  assert.equal(await resetOf(connectTo(viewer.ports[0] ?? 0)), "ECONNRESET");
  const [code, stderr] = await endOf(viewer);
  assert.deepEqual([code, /role|may not|operator/.test(stderr)], [4, true], stderr);

  assert.equal((await endOf(await forward(plane, home, [robot.id, "http"])))[0], 2);
  assert.equal((await endOf(await forward(plane, home, ["rob_nothing", "0:9"])))[0], 5);
});

test("a local program that stops reading blocks only its own forwarded connection", TIMEOUT, async () => {
  await using plane = await startPlane();
  await using robot = await LiveRobot.start(plane);
  await using home = await RfHome.make();
  await using echo = await echoService();
  let sent = 0;
  await using endless = await startLoopbackServer((socket) => {
    const more = (): void => {
      while (socket.write(Buffer.alloc(64 * 1024), () => (sent += 64 * 1024)));
      socket.once("drain", more);
    };
    more();
  });
  await using running = await forward(plane, home, [robot.id, `0:${echo.port}`, `0:${endless.port}`]);
  const [echo_port = 0, endless_port = 0] = running.ports;
  const stuck = connectTo(endless_port);
  stuck.pause();
  let before = -1;
  await plane.until("the endless service to be held up", async () => {
    assert.equal(String(await ask(echo_port, "are you there")), "are you there");
    const still = sent > 0 && sent === before;
    before = sent;
    return still;
  });
  // Upper bound of the data in transit: the kernel's buffers of five sockets, and the far smaller buffers of rf, server and agent.
  assert.ok(sent < 40 * MIB, `${sent} bytes were taken`);
  stuck.destroy();
});
