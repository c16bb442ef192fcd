import { CONTROL_CHANNEL, decodeFrame, FrameType, LOG_CHANNEL } from "@roamfleet/protocol/link";
import type { WebSocket } from "ws";
import { RECORDS_PER_BATCH, recordsFrom } from "../log-records.ts";
import { cpuMicroseconds, goalOrLimit, sample } from "../measure.ts";
import { runLimit } from "../rig.ts";
import { connectRobot, insertRobots, sendMessage } from "../robots.ts";
import type { Row } from "../row.ts";

const ROBOTS = 20;
const BATCHES_EACH = 200;
const BATCHES_QUICK = 20;
const ROUNDS = 7;
/** Rounds in which V8 still compiles: they cost up to twice as much. */
const WARM_UP = 3;
/** Server CPU microseconds per record, excluding the database. */
const RECORD_US_MAX = 2.9;

/** Sends batches, each after the previous one was acknowledged as stored. */
export function ship(socket: WebSocket, from: number, batches: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let batch = 0;
    const next = (): void => sendMessage(socket, LOG_CHANNEL, { type: "logs", records: recordsFrom(from + batch * RECORDS_PER_BATCH) });
    const onMessage = (data: Buffer): void => {
      const frame = decodeFrame(data);
      if (frame.type !== FrameType.DATA || frame.channel !== CONTROL_CHANNEL) return;
      if ((JSON.parse(Buffer.from(frame.payload).toString("utf8")) as { type: string }).type !== "log_ack") return;
      batch += 1;
      if (batch < batches) return next();
      socket.off("message", onMessage).off("error", reject);
      resolve();
    };
    socket.on("message", onMessage).once("error", reject);
    next();
  });
}

export const logIngest: Row = {
  name: "log-ingest",
  area: "logs",
  about: `log records in batches of ${RECORDS_PER_BATCH}, stored and acknowledged; compared with JSON.parse and COPY of the same bytes`,
  run: async (rig) => {
    const batches = rig.quick ? BATCHES_QUICK : BATCHES_EACH;
    const limit = await rig.start("limits/log-copy", {
      DATABASE: JSON.stringify(rig.database),
      BATCHES: String(batches * ROBOTS),
      BATCH: JSON.stringify({ type: "logs", records: recordsFrom(1) }),
    });
    const links = await Promise.all((await insertRobots(rig, ROBOTS)).map((robot) => connectRobot(rig.server, robot)));
    const records = ROBOTS * batches * RECORDS_PER_BATCH;
    const [of_server, of_limit]: [number[], number[]] = [[], []];
    const warm_up = rig.quick ? 1 : WARM_UP;
    for (let i = 0; i < warm_up + (rig.quick ? 1 : ROUNDS); i += 1) {
      const before = cpuMicroseconds(rig.server.pid);
      await Promise.all(links.map((link) => ship(link, 1 + i * batches * RECORDS_PER_BATCH, batches)));
      const ours_us = (cpuMicroseconds(rig.server.pid) - before) / records;
      const limit_before = cpuMicroseconds(limit.pid);
      await runLimit(limit);
      const limit_us = (cpuMicroseconds(limit.pid) - limit_before) / records;
      if (i < warm_up) continue;
      of_server.push(ours_us);
      of_limit.push(limit_us);
    }
    for (const link of links) link.terminate();
    await limit.stop();
    const [ours_us, limit_us] = [sample(of_server), sample(of_limit)];
    return {
      ours: ours_us,
      limit: limit_us,
      unit: "µs CPU",
      ratio: ours_us.median / limit_us.median,
      figure: `${ours_us.median.toFixed(2)} µs`,
      ...goalOrLimit(ours_us, limit_us, RECORD_US_MAX, "µs"),
      ours_cpu_us: ours_us,
      limit_cpu_us: limit_us,
    };
  },
};
