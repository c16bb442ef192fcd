import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { LogRecordBody, Logs, ServerMessage } from "@roamfleet/protocol/link";
import type { LogRecord } from "@roamfleet/protocol/routes";
import { LogShipper } from "../../packages/agent/src/logs/shipper.ts";
import { LogSpool } from "../../packages/agent/src/spool/log-spool.ts";
import { LIMIT_DEFAULTS } from "../../packages/server/src/config.ts";
import { ingestLogs, logRoutes } from "../../packages/server/src/features/logs/index.ts";
import { startFeaturePlane } from "../../packages/server/src/features/testing/feature-plane.ts";
import { fakeSession, helloOf } from "../../packages/server/src/features/testing/places.ts";
import { seedRobot } from "../../packages/server/src/features/testing/seed-robot.ts";

const LIMIT = { timeout: 120_000 };
const MIB = 1024 * 1024;
const RATE = 256 * 1024;
const RECORD_BYTES = 10_000;

/** Starts an agent's spool and shipper, connected to a server that limits each robot to RATE bytes a second. */
async function startRobot(t: TestContext, { spool_bytes }: { spool_bytes: number }) {
  const it = await startFeaturePlane([logRoutes]);
  t.after(() => it[Symbol.asyncDispose]());
  const limits = { ...LIMIT_DEFAULTS, log_bytes_per_robot_per_second: RATE, log_burst_bytes_per_robot: MIB };
  it.plane.settings = { ...it.plane.settings, limits };
  const { org_id, token } = await it.org({ role: "viewer" });
  const { robot_id } = await seedRobot(it.plane, org_id);
  const directory = mkdtempSync(join(tmpdir(), "rf-pace-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const { clock } = it;
  const spool = new LogSpool({ directory, bytes_max: spool_bytes, clock, now: () => clock.now(), on_disk: () => {} });
  t.after(() => spool.close());
  const shipper = new LogShipper(spool, clock);
  t.after(() => shipper.stop());
  let arriving = Promise.resolve();
  let [arrived, logged, acked] = [0, 0, 0];
  const send = (message: ServerMessage): boolean => {
    if (message.type === "log_ack") shipper.acknowledge((acked = message.seq));
    return true;
  };
  const session = { ...fakeSession("sess_1", org_id, helloOf(robot_id)), send };
  const outlet = {
    room: () => 64 * MIB,
    send: (message: string): boolean => {
      arrived += message.length;
      arriving = arriving.then(() => ingestLogs(it.plane, session, JSON.parse(message) as Logs));
      return true;
    },
  };
  shipper.start(outlet, { acked: 0, flush_ms: 1_000 });
  return {
    clock,
    spool,
    log: (count: number): void => {
      for (let i = 0; i < count; i += 1) spool.append({ level: "info", source: "test", message: "x".repeat(RECORD_BYTES) });
      logged += count;
      shipper.recordAdded();
    },
    /** Total bytes of all flushes so far. */
    arrived: () => arrived,
    stored: async (): Promise<LogRecord[]> => {
      const records: LogRecord[] = [];
      for (let cursor = ""; ;) {
        const path = `/api/robots/${robot_id}/logs?limit=1000${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
        const { body } = await it.call<{ items: LogRecord[]; next_cursor: string | null }>("GET", path, { token });
        records.unshift(...body.items);
        if (body.next_cursor === null) return records;
        cursor = body.next_cursor;
      }
    },
    /** Advances the clock until the spool is empty. Returns the number of seconds that this took. */
    drain: async (): Promise<number> => {
      let seconds = 0;
      await until("everything to be acknowledged", () => acked === logged, {
        meanwhile: async () => {
          await arriving;
          seconds += 1;
          await clock.advance({ seconds: 1 });
        },
        progress: () => arrived,
      });
      return seconds;
    },
  };
}

const gapOf = ({ fields }: LogRecordBody | LogRecord) => fields.gap as { count: number; from_seq: number; to_seq: number } | undefined;

test("log records above a robot's rate limit wait in its spool and arrive later exactly once", LIMIT, async (t) => {
  const robot = await startRobot(t, { spool_bytes: 64 * MIB });
  const count = 800;
  robot.log(count);
  await robot.clock.advance({ seconds: 5 });
  assert.ok(robot.spool.bytes > 4 * MIB, `${robot.spool.bytes} bytes are in the spool`);
  const seconds = 5 + (await robot.drain());
  const stored = await robot.stored();
  assert.deepEqual(
    stored.map(({ seq }) => seq),
    Array.from({ length: count }, (_, i) => i + 1),
  );
  assert.ok(stored.every((record) => gapOf(record) === undefined));
  // The number of sent bytes proves that each record was sent only once.
  assert.ok(robot.arrived() < count * (RECORD_BYTES + 200), `${robot.arrived()} bytes were sent`);
  const expected = (count * RECORD_BYTES - MIB) / RATE;
  assert.ok(seconds > expected * 0.9 && seconds < expected * 1.3 + 5, `${seconds} s for what takes ${expected}`);
});

test("a rate-limited robot drops its oldest log records only if its spool is full", LIMIT, async (t) => {
  const robot = await startRobot(t, { spool_bytes: 3 * MIB });
  let logged = 0;
  for (let second = 0; second < 20; second += 1) {
    robot.log(60);
    logged += 60;
    await robot.clock.advance({ seconds: 1 });
  }
  await robot.drain();
  const stored = await robot.stored();
  const gaps = stored.flatMap((record) => gapOf(record) ?? []);
  const dropped = gaps.reduce((sum, { count }) => sum + count, 0);
  assert.ok(dropped > 100, `${dropped} of ${logged} dropped`);
  assert.equal(dropped, robot.spool.dropped);
  assert.equal(stored.length - gaps.length + dropped, logged);
  assert.equal(stored.at(-1)?.seq, logged);
});
