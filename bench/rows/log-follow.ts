import { setTimeout as sleep } from "node:timers/promises";
import { LOG_CHANNEL } from "@roamfleet/protocol/link";
import { WebSocket } from "ws";
import { recordsFrom } from "../log-records.ts";
import { cpuMicroseconds, sample } from "../measure.ts";
import { connectRobot, insertRobots, sendMessage } from "../robots.ts";
import type { Row } from "../row.ts";

const RECORDS_PER_SECOND = 10_000;
/** Flush interval of an agent while a viewer follows its log. */
const FLUSH_MS = 50;
const RECORDS_PER_FLUSH = (RECORDS_PER_SECOND * FLUSH_MS) / 1_000;
const SECONDS = 5;
const SECONDS_QUICK = 1;
const ROUNDS = 7;
const SHARE_MAX = 0.05;
const ARRIVE_TIMEOUT_MS = 30_000;

/** Sends flushes at their times; returns the last record's number. */
async function ship(socket: WebSocket, from: number, flushes: number): Promise<number> {
  const start = performance.now();
  for (let i = 0; i < flushes; i += 1) {
    sendMessage(socket, LOG_CHANNEL, { type: "logs", records: recordsFrom(from + i * RECORDS_PER_FLUSH, RECORDS_PER_FLUSH) });
    await sleep(Math.max(0, start + (i + 1) * FLUSH_MS - performance.now()));
  }
  return from + flushes * RECORDS_PER_FLUSH - 1;
}

/** Records received by one follower. */
class Follower {
  records = 0;
  readonly #socket: WebSocket;

  constructor(url: string) {
    this.#socket = new WebSocket(url, { perMessageDeflate: false });
    this.#socket.on("message", () => (this.records += 1));
  }

  async opened(): Promise<this> {
    await new Promise((resolve, reject) => this.#socket.once("open", resolve).once("error", reject));
    return this;
  }

  async has(count: number): Promise<void> {
    const end = performance.now() + ARRIVE_TIMEOUT_MS;
    while (this.records < count) {
      if (performance.now() > end) throw new Error(`a follower has ${this.records} of ${count} records`);
      await sleep(10);
    }
  }

  close(): void {
    this.#socket.terminate();
  }
}

export const logFollow: Row = {
  name: "log-follow",
  area: "logs",
  about: `${RECORDS_PER_SECOND} log records a second of one robot: the cost that a follower adds to storing them, as a share of a core`,
  run: async (rig) => {
    const flushes = ((rig.quick ? SECONDS_QUICK : SECONDS) * 1_000) / FLUSH_MS;
    const [robot] = await insertRobots(rig, 1);
    if (robot === undefined) throw new Error("no robot");
    const link = await connectRobot(rig.server, robot);
    const url = `${rig.server.url.replace(/^http/, "ws")}/api/robots/${robot.id}/logs/ws?token=${rig.token}`;
    let next = 1;
    /** Share of a core that the server uses during the measurement. */
    const measure = async (followed: boolean): Promise<number> => {
      const follower = followed ? await new Follower(url).opened() : undefined;
      // Wait for the stored records, which arrive before live ones.
      await sleep(500);
      const stored = follower?.records ?? 0;
      const [before, start] = [cpuMicroseconds(rig.server.pid), performance.now()];
      next = (await ship(link, next, flushes)) + 1;
      await follower?.has(stored + flushes * RECORDS_PER_FLUSH);
      const share = (cpuMicroseconds(rig.server.pid) - before) / 1_000 / (performance.now() - start);
      follower?.close();
      return share;
    };
    const [without, added]: [number[], number[]] = [[], []];
    for (let i = 0; i <= (rig.quick ? 1 : ROUNDS); i += 1) {
      const [alone, followed] = [await measure(false), await measure(true)];
      if (i === 0) continue; // warms up
      without.push(alone * 100);
      added.push(Math.max(0, followed - alone) * 100);
    }
    link.terminate();
    const [ours, stored] = [sample(added), sample(without)];
    return {
      ours,
      unit: "% of a core",
      figure: `${ours.median.toFixed(1)} %; storing alone ${stored.median.toFixed(1)} %`,
      goal: `≤ ${SHARE_MAX * 100} % of a core`,
      met: ours.median <= SHARE_MAX * 100,
    };
  },
};
