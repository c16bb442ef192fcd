import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import type { LogRecord } from "@roamfleet/protocol/routes";
import type { SimulatedRobot } from "@roamfleet/swarm/testing";
import { NatsServer, SKIP_NATS } from "../../packages/server/src/engines/bus/testing/nats-server.ts";
import { RfHome } from "../../packages/cli/src/testing/run-rf.ts";
import { startPlane } from "../harness/index.ts";
import { Proxy } from "../harness/proxy.ts";
import { lineTo, secondNode } from "../harness/second-node.ts";
import { shiftedClock } from "../harness/shifted-clock.ts";
import { opened } from "../spec/web-socket.ts";

const OPTIONS = { skip: SKIP_NATS, timeout: 240_000 };
const NODES = { listen: { host: "127.0.0.1", port: 0 }, address: undefined };
const HOUR_MS = 3_600_000;
const ROUNDS = 4;
const RECORDS = 10;

const seqsOf = (frames: readonly (string | Buffer)[], robot_id: string): number[] =>
  frames.map((frame) => JSON.parse(String(frame)) as LogRecord).flatMap((record) => (record.robot_id === robot_id ? [record.seq] : []));

/** Follows a fleet's log with `rf`, whose connection the test moves from server to server. */
async function followWithRf(urls: readonly string[], fleet_id: string, token: string) {
  let turn = 0;
  await using own = new AsyncDisposableStack();
  const line = own.use(await Proxy.start(() => urls[turn % urls.length] ?? ""));
  const home = own.use(await RfHome.make());
  let [stdout, child] = ["", undefined as ChildProcess | undefined];
  const ended = home.run(["fleets", "logs", fleet_id, "--follow", "--json"], {
    env: { ROAMFLEET_BASE_URL: line.url, ROAMFLEET_TOKEN: token },
    on_output: (its, text) => {
      child = its;
      stdout += text;
    },
  });
  await until("rf to connect", () => line.accepted > 0);
  const parts = own.move();
  return {
    /** The printed records, without an incomplete last record. */
    get frames(): string[] {
      return stdout
        .slice(0, stdout.lastIndexOf("\n") + 1)
        .split("\n")
        .filter((text) => text.startsWith("{"));
    },
    refuse(): void {
      line.refuse(true);
      line.reset();
    },
    continueElsewhere(): void {
      turn += 1;
      line.refuse(false);
    },
    async [Symbol.asyncDispose]() {
      child?.kill("SIGINT");
      assert.equal((await ended).code, 130);
      await parts.disposeAsync();
    },
  };
}

test("a fleet's log has each record once and in order despite servers whose clocks differ by hours", OPTIONS, async () => {
  await using nats = await NatsServer.start();
  await using first = await startPlane({ nodes: 1, clock_offsets_ms: [HOUR_MS], settings: { bus: nats.address(), nodes: NODES } });
  await using second = await secondNode(first, {}, shiftedClock(systemClock, -HOUR_MS));
  await using to_first = await lineTo(first, first);
  await using to_second = await lineTo(first, second);
  const urls = [first.url, second.url];
  const fleet_id = await first.homeFleet();
  const robots: SimulatedRobot[] = [];
  for (const url of [...urls, first.url]) {
    const robot = await first.enrollRobot({ fleet_id, online: false });
    first.swarm.url = url;
    await robot.connect();
    robots.push(robot);
  }
  const moving = robots[2];
  assert.ok(moving);
  const path = `/api/fleets/${fleet_id}/logs/ws?token=${first.default_org.admin_token}`;
  const viewers = await Promise.all(urls.map((url) => opened(url + path)));
  await using rf = await followWithRf(urls, fleet_id, first.default_org.admin_token);
  let count = 0;
  const logAll = (): void => {
    for (let i = 0; i < RECORDS; i += 1) {
      count += 1;
      for (const robot of robots) robot.log(`record ${count}`);
    }
  };
  const complete = (readers: readonly { frames: readonly (string | Buffer)[] }[] = [rf, ...viewers]): Promise<unknown> =>
    until(
      "each viewer has every record of each robot once, in order",
      () =>
        readers.every(({ frames }) =>
          robots.every(({ id }) => {
            const seqs = seqsOf(frames, id);
            return seqs.length === count && seqs.every((seq, i) => seq === i + 1);
          }),
        ),
      { progress: () => readers.map(({ frames }) => robots.map(({ id }) => seqsOf(frames, id).length).join(" ")).join(", ") },
    );
  for (let round = 0; round < ROUNDS; round += 1) {
    // Log and reconnect without a pause, so that the last records of one server are in flight while the first arrive through the other
    // server.
    logAll();
    await moving.disconnect();
    first.swarm.url = urls[(round + 1) % 2] ?? "";
    await moving.connect();
    logAll();
    if (round % 2 === 0) continue;
    await complete();
    for (const line of [to_first, to_second]) {
      line.refuse(true);
      line.reset();
    }
    rf.refuse();
    logAll();
    for (const line of [to_first, to_second]) line.refuse(false);
    // The records of the interruption are stored before rf is back.
    await complete(viewers);
    rf.continueElsewhere();
    await complete();
  }
  for (const { ws, closed } of viewers) {
    ws.close();
    await closed;
  }
});
