import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { OpenStream } from "../harness/open-stream.ts";
import { RobotSurroundings } from "../harness/robot-surroundings.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { pushBundle } from "../processes/app-bundle.ts";
import { checkOnce, listFired } from "../promises/due-deployments.ts";
import type { FaultNode } from "./fault-node.ts";
import type { FaultRig } from "./fault-rig.ts";

/** A longer recovery time fails the test, even on a busy machine. The goal is 15 s. */
const RECOVERED_MS_MAX = 120_000;
const WRITERS = 4;
const WRITE_EVERY_MS = 50;
const DUE_AFTER_MS = 4_000;
const DUE_EVERY_MS = 1_000;
const VIEWERS = 3;
const STREAM = "logs";
/** Allowed close codes. 1006 is a broken connection without a close frame. */
const CLOSED_CODES = [1001, 1006, 1011, 1012, 1013, 4401, 4409, 4410, 4429, 4500, 4503];

export interface Fault {
  /** Starts the fault. The robot whose streams are watched is connected to `node`. */
  begin: (node: FaultNode) => Promise<void> | void;
  /** Ends the fault, after the service has recovered from it. Absent if nothing needs to be ended. */
  end?: (node: FaultNode) => Promise<void> | void;
  /** Whether the service cannot recover as long as the fault lasts. If so, the recovery time is measured from the fault's end. */
  until_end?: boolean;
}

/**
 * Causes a fault under load and checks the invariants. Acknowledged writes exist, scheduled deployments are dispatched once, robots
 * reconnect, and ended streams are closed and can be reopened. Returns the figures as text.
 */
export async function underFault(t: TestContext, rig: FaultRig, { begin, end, until_end = false }: Fault): Promise<string> {
  try {
    const around = await RobotSurroundings.start(t);
    const args = ["--config", around.writeConfig()];
    await using watched = new AgentProcess({ url: rig.url, key: rig.key, name: "watched", args });
    const robots = rig.robots.length + 1;
    const robot_id = await until("the watched robot", () => findRobot(rig, "watched"));
    await until("all robots to be online", async () => (await rig.online()) === robots);
    const viewers = new Viewers(rig, robot_id, around);
    await viewers.open();
    const writing = new Writing(rig);
    const scheduled = await schedule(rig);
    const node = await rig.nodeOf(robot_id);

    let since = performance.now();
    const took = (): number => Math.round(performance.now() - since);
    await begin(node);
    if (until_end) {
      await end?.(node);
      since = performance.now();
    }
    const recovered = { writes_ms: 0, robots_ms: 0, streams_ms: 0 };
    await Promise.all([
      writing.writesAgain().then(() => (recovered.writes_ms = took())),
      backOnline(rig, robots).then(() => (recovered.robots_ms = took())),
      viewers.work().then(() => (recovered.streams_ms = took())),
    ]);
    const words = `writes after ${recovered.writes_ms} ms, robots online after ${recovered.robots_ms} ms, streams after ${recovered.streams_ms} ms`;
    t.diagnostic(`recovered: ${words} (goal: 15 s); ends of streams: ${viewers.ends.join(", ") || "none"}`);
    if (!until_end) await end?.(node);
    await backOnline(rig, robots);
    await viewers.work();
    const written = await writing.end();
    await checkScheduled(rig, scheduled);
    const replayed = await rig.ledger.checkReplays();
    const there = await rig.ledger.checkResources();
    assert.ok(written > 0 && there >= written, `${there} of ${written} acknowledged writes are there`);
    t.diagnostic(
      `${written} writes acknowledged (failed attempts: ${failedAttempts(rig)}), ${replayed} replayed byte-equal; ${scheduled} scheduled, each dispatched once`,
    );
    viewers.close();
    assert.equal(watched.program.running, true);
    return `${words}; ${written} acknowledged writes, 0 lost; ${scheduled} scheduled, each dispatched once`;
  } catch (error) {
    rig.explain(t);
    throw error;
  }
}

/** Counts the writers' attempts that got no response, or a response that asks for a retry. */
function failedAttempts({ ledger }: FaultRig): string {
  const statuses = Map.groupBy(ledger.refusals, ({ status }) => status);
  return [`${ledger.cut_off} cut off`, ...Array.from(statuses, ([status, { length }]) => `${length} answered ${status}`)].join(", ");
}

async function findRobot(rig: FaultRig, name: string): Promise<string | undefined> {
  return (await rig.api.listRobots({ query: { status: "online" } })).items.find((robot) => robot.name === name)?.id;
}

/** Waits until each robot is connected, according to the robot and the service. */
const backOnline = (rig: FaultRig, robots: number): Promise<true> =>
  until("all robots to be online", async () => rig.robots.every(({ connected }) => connected) && (await rig.online()) === robots, {
    despite_errors: true,
    deadline_ms: RECOVERED_MS_MAX,
  });

/** Schedules a deployment for each simulated robot, one after the other, starting soon. Returns their number. */
async function schedule(rig: FaultRig): Promise<number> {
  const release = await pushBundle(rig.api, "due", Buffer.from("due"), { kind: "file" });
  const from_ms = Date.now() + DUE_AFTER_MS;
  for (const [place, { id }] of rig.robots.entries()) {
    const scheduled_at = new Date(from_ms + place * DUE_EVERY_MS).toISOString();
    await rig.api.createDeployment({ body: { release, robot_id: id, scheduled_at }, idempotency_key: randomUUID() });
  }
  return rig.robots.length;
}

async function checkScheduled(rig: FaultRig, count: number): Promise<void> {
  const client = await rig.database.connect();
  try {
    const ended = async (): Promise<number> => {
      const { rows } = await client.query<{ count: number }>(
        "select count(*)::int as count from deployment where org_id = $1 and status = 'applied'",
        [rig.org_id],
      );
      return rows[0]?.count ?? 0;
    };
    let seen = 0;
    const all = async (): Promise<boolean> => (seen = await ended()) === count;
    await until("due deployments to be applied", all, { deadline_ms: RECOVERED_MS_MAX, progress: () => seen });
    checkOnce(await listFired(client, rig.org_id), count);
  } finally {
    await client.end();
  }
}

/** Clients that write continuously and record acknowledged writes. */
class Writing {
  #done = 0;
  #ended = false;
  readonly #rig: FaultRig;
  readonly #work: Promise<unknown>;

  constructor(rig: FaultRig) {
    this.#rig = rig;
    this.#work = Promise.all(Array.from({ length: WRITERS }, (_, writer) => this.#write(writer)));
    // Handle the rejection here: a caller that awaits the end of the writer still gets the error.
    this.#work.catch(() => {});
  }

  /** Resolves when each writer has written again. */
  async writesAgain(): Promise<void> {
    const before = this.#done;
    await until("writes to succeed", () => this.#done > before + 2 * WRITERS, { deadline_ms: RECOVERED_MS_MAX });
  }

  async end(): Promise<number> {
    this.#ended = true;
    await this.#work;
    return this.#done;
  }

  async #write(writer: number): Promise<void> {
    for (let n = 0; !this.#ended; n += 1) {
      await this.#rig.ledger.post("/api/sites", { name: `Site ${writer}-${n}` });
      this.#done += 1;
      await new Promise((resolve) => setTimeout(resolve, WRITE_EVERY_MS));
    }
  }
}

/** Viewers of one robot, connected to different nodes through the balancer. They reconnect when their stream ends. */
class Viewers {
  /** The codes with which streams ended. */
  readonly ends: number[] = [];
  #streams: OpenStream[] = [];
  readonly #rig: FaultRig;
  readonly #robot_id: string;
  readonly #around: RobotSurroundings;

  constructor(rig: FaultRig, robot_id: string, around: RobotSurroundings) {
    this.#rig = rig;
    this.#robot_id = robot_id;
    this.#around = around;
  }

  async open(): Promise<void> {
    for (let viewer = 0; viewer < VIEWERS; viewer += 1) this.#streams.push(await this.#opened());
    await this.work();
  }

  /** Resolves when each viewer receives the robot's log, over the same or a reopened stream. */
  async work(): Promise<void> {
    this.#streams = await Promise.all(this.#streams.map((stream) => this.#works(stream)));
  }

  close(): void {
    for (const { ws } of this.#streams) ws.terminate();
  }

  async #works(stream: OpenStream): Promise<OpenStream> {
    const deadline = performance.now() + RECOVERED_MS_MAX;
    for (let now = stream; ; now = await this.#opened()) {
      const works = await Promise.race([
        now.round().then(
          () => true,
          () => false,
        ),
        now.closed.then(() => false),
      ]);
      if (works) return now;
      assert.ok(!now.open, "a silent stream stays open");
      const { code, reason } = await now.closed;
      assert.ok(CLOSED_CODES.includes(code), `a stream ended with ${code} ${reason}`);
      this.ends.push(code);
      assert.ok(performance.now() < deadline, "no stream works");
    }
  }

  #opened(): Promise<OpenStream> {
    const { url, token } = this.#rig;
    return until("a stream to be opened", () => OpenStream.open(url, STREAM, this.#robot_id, this.#around, { query: { token } }), {
      despite_errors: true,
      deadline_ms: RECOVERED_MS_MAX,
    });
  }
}
