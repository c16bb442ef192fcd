import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { type Truthy, until } from "@roamfleet/clock/testing";
import { type Agent, startAgent } from "../../packages/agent/src/agent.ts";
import { OUTBOX_REPORTS_MAX } from "../../packages/agent/src/spool/outbox.ts";
import { agentConfig } from "../../packages/agent/src/testing/agent-rig.ts";
import { shellRelease, WELL } from "../../packages/agent/src/testing/bundles.ts";
import { processesWithEnvironment } from "../../packages/agent/src/runtime/processes.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { Proxy } from "../harness/proxy.ts";

const LIMIT = { timeout: promiseSize({ test: 240_000, full: 1_800_000 }) };
const HOURS = 24;
/** Virtual time between two checks for local changes. Each check may cause a report. */
const STEP_SECONDS = promiseSize({ test: 3_600, full: 30 });
/**
 * Whether the server keeps running while the robot is disconnected. In the small size the server is stopped, because processing a day of
 * its timers takes minutes.
 */
const SERVER_STAYS = promiseSize({ test: 0, full: 1 }) === 1;
const NAMESPACES = ["arm", "base", "camera", "map"];
const SPOOL_BYTES = 512 * 1024;
const LINES_PER_HOUR = 500;
/** Text that makes lines so long that a day's log is several times as large as the spool. */
const PADDING = "x".repeat(150);
const WAIT_MS = promiseSize({ test: 120_000, full: 900_000 });

/** Prints an hour's lines when the file of that hour appears. Each line contains its hour and number. */
const program = (directory: string): string => `trap "exit 0" TERM
h=0
while :; do
  while [ ! -e ${directory}/go-$h ]; do sleep 0.02; done
  i=0
  while [ $i -lt ${LINES_PER_HOUR} ]; do echo "hour $h line $i $ROAMFLEET_RELEASE ${PADDING}"; i=$((i+1)); done
  : > ${directory}/done-$h
  h=$((h+1))
done`;

class Robot implements AsyncDisposable {
  readonly state: string;
  readonly triggers: string;
  readonly plane: Harness;
  readonly proxy: Proxy;
  agent!: Agent;
  /**
   * Whether virtual time stops while frames of the agent are in transit. Off for a day's log, whose flow control credit may depend on time.
   */
  counted = true;
  readonly lines: string[] = [];

  constructor(plane: Harness, proxy: Proxy) {
    this.plane = plane;
    this.proxy = proxy;
    const base = mkdtempSync(path.join(tmpdir(), "roamfleet-alone-"));
    this.state = path.join(base, "state");
    this.triggers = base;
  }

  async start(): Promise<void> {
    const enroll_key = await this.plane.enrollmentKey();
    const workload_environment = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };
    const config = agentConfig(this.proxy.url, this.state, { enroll_key, log_spool_bytes_max: SPOOL_BYTES, workload_environment });
    const { clock } = this.plane;
    const activity = { begin: () => (this.counted ? this.plane.activity.begin() : () => {}) };
    this.agent = await startAgent({ config, clock, activity, log: (line) => void this.lines.push(line) });
  }

  config(namespace: string): string {
    return path.join(this.state, "configs", `${namespace}.json`);
  }

  processes(tag: string): number[] {
    return processesWithEnvironment({ ROAMFLEET_CONFIG_DIR: path.join(this.state, "configs"), ROAMFLEET_RELEASE: tag })
      .filter(({ pid, group }) => pid === group)
      .map(({ pid }) => pid);
  }

  /** Advances virtual time, one second at a time, until a condition holds. */
  until<T>(what: string, look: () => Promise<T | undefined | false> | T | undefined | false): Promise<Truthy<T>> {
    return until(what, look, {
      deadline_ms: WAIT_MS,
      poll_ms: this.counted ? 5 : 50,
      meanwhile: () => this.plane.advance({ seconds: 1 }),
      detail: () => this.lines.slice(-20).join(""),
    });
  }

  /** Lets the program print an hour's lines, and waits until they are spooled. */
  async work(hour: number): Promise<void> {
    writeFileSync(path.join(this.triggers, `go-${hour}`), "");
    const last = `hour ${hour} line ${LINES_PER_HOUR - 1} `;
    await this.until(`the lines of hour ${hour}`, () => this.#spooled(last));
  }

  /** Reports whether the spool contains a line. */
  #spooled(text: string): boolean {
    const directory = path.join(this.state, "logs");
    return readdirSync(directory).some((file) => {
      try {
        return readFileSync(path.join(directory, file), "utf8").includes(text);
      } catch {
        return false;
      }
    });
  }

  spoolBytes(): number {
    const directory = path.join(this.state, "logs");
    return readdirSync(directory).reduce((sum, file) => sum + statSync(path.join(directory, file)).size, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Stopping the agent waits for timers in virtual time.
    let ended = this.agent === undefined;
    const ending = this.agent?.stop().finally(() => (ended = true));
    while (!ended) {
      await this.plane.advance({ seconds: 1 });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await ending;
    rmSync(this.triggers, { recursive: true, force: true });
  }
}

async function allLogs({ api }: Harness, id: string) {
  const records = [];
  let cursor: string | undefined;
  do {
    const page = await api.listRobotLogs({
      params: { id },
      query: { limit: 1_000, since: "2000-01-01T00:00:00Z", ...(cursor && { cursor }) },
    });
    records.push(...page.items);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return records;
}

test("a robot that is disconnected for 24 hours keeps running and reports everything stored afterwards", LIMIT, async (t) => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z" });
  await using proxy = await Proxy.start(() => plane.url);
  await using robot = new Robot(plane, proxy);
  await robot.start();
  const { robot_id } = robot.agent;
  await robot.until("the link", () => robot.agent.connected);
  const deploy = async (tag: string, script: string) => {
    const { bytes } = await shellRelease(tag, script);
    const release = await plane.release({ tag, kind: "app_bundle", app: "main", bytes });
    return plane.deploy(release, { robot_id }, { rollout: { verify_seconds: 5 } });
  };
  const applied = async (id: string) => (await plane.deployment(id)).status === "applied";
  const setConfigs = async (value: number): Promise<void> => {
    for (const namespace of NAMESPACES)
      await plane.api.setConfig({ body: { namespace, key: "speed", value, scope: "robot", scope_id: robot_id } });
    await plane.deployConfig({ robot_id });
  };
  const hasConfigs = (value: number): boolean =>
    NAMESPACES.every((namespace) => {
      try {
        return (JSON.parse(readFileSync(robot.config(namespace), "utf8")) as { speed?: number }).speed === value;
      } catch {
        return false;
      }
    });
  const first = await deploy("one", program(robot.triggers));
  await robot.until("the first release", () => applied(first.id));
  await setConfigs(1);
  await robot.until("the first configs", () => hasConfigs(1));
  const [pid] = robot.processes("one");
  assert.ok(pid !== undefined);

  proxy.refuse(true);
  proxy.reset();
  await robot.until("the cut", () => !robot.agent.connected);
  const cut_at = plane.clock.now().getTime();
  const tried_before = proxy.accepted;
  const second = await deploy("two", WELL);
  await setConfigs(2);
  await robot.until("the release to wait", async () => (await plane.targets(second.id)).get(robot_id)?.waiting_for === "robot_online");
  if (!SERVER_STAYS) await plane.stop();
  let [by_hand, spool_most] = [0, 0];
  for (let hour = 0; hour < HOURS; hour += 1) {
    await robot.work(hour);
    spool_most = Math.max(spool_most, robot.spoolBytes());
    while (plane.clock.now().getTime() - cut_at < (hour + 1) * 3_600_000) {
      by_hand += 1;
      for (const namespace of NAMESPACES) writeFileSync(robot.config(namespace), `{"by_hand":${by_hand}}`);
      await plane.advance({ seconds: STEP_SECONDS });
    }
    assert.deepEqual(robot.processes("one"), [pid], `the workload in hour ${hour}`);
  }
  assert.equal(robot.agent.connected, false);
  if (!SERVER_STAYS) await plane.restart();
  assert.equal((await plane.targets(second.id)).get(robot_id)?.waiting_for, "robot_online");
  const written = NAMESPACES.length * by_hand;
  assert.ok(spool_most <= SPOOL_BYTES * 1.1, `${spool_most} bytes of log on the robot's disk`);
  const attempts = proxy.accepted - tried_before;

  robot.counted = false;
  proxy.refuse(false);
  await robot.until("the link", () => robot.agent.connected);
  await robot.until("the second release", () => applied(second.id));
  await robot.until("the second configs", () => hasConfigs(2));
  assert.equal(robot.processes("one").length, 0);
  const [new_pid] = robot.processes("two");
  assert.ok(new_pid !== undefined && new_pid !== pid);
  await robot.until(
    "every report to be acknowledged",
    async () => (await plane.api.getRobotHealth({ params: { id: robot_id } })).data.metrics["outbox_reports"] === 0,
  );
  const drift = await plane.api.getRobotConfig({ params: { id: robot_id } });
  assert.ok(!JSON.stringify(drift).includes('"drift":true'), "what was changed by hand is as it was wanted");

  const logs = await robot.until("the last of what was kept", async () => {
    const all = await allLogs(plane, robot_id);
    return all.some(({ message }) => message.startsWith(`hour ${HOURS - 1} line ${LINES_PER_HOUR - 1} one`)) && all;
  });
  const gaps = logs.flatMap(({ fields }) =>
    "gap" in fields ? [fields["gap"] as { count: number; from_seq: number; to_seq: number }] : [],
  );
  const dropped = gaps.reduce((sum, { count }) => sum + count, 0);
  const numbers = logs.filter(({ fields }) => !("gap" in fields)).map(({ seq }) => seq);
  const last = Math.max(...logs.map(({ seq }) => seq));
  assert.equal(new Set(numbers).size, numbers.length, "none twice");
  assert.equal(numbers.length + dropped, last, "what arrived and what the gaps say add up");
  assert.ok(dropped > 0, "the spool was full");
  for (const { from_seq, to_seq, count } of gaps)
    assert.equal(numbers.filter((seq) => seq >= from_seq && seq <= to_seq).length, to_seq - from_seq + 1 - count);
  const lines = new Set(logs.flatMap(({ message }) => /^hour \d+ line \d+ one/.exec(message) ?? []));
  assert.ok(lines.size <= HOURS * LINES_PER_HOUR && lines.size > 0);
  if (promiseSize({ test: 0, full: 1 }) === 1) assert.ok(written > OUTBOX_REPORTS_MAX, "more reports than the outbox holds");
  provePromise(
    t,
    21,
    `${HOURS} virtual hours without the server${SERVER_STAYS ? "" : ", which was down meanwhile"} (${attempts} tries to reach it): the same process ran throughout; ${written} changes by hand to report, ` +
      `${HOURS * LINES_PER_HOUR} lines printed into a spool of ${SPOOL_BYTES / 1024} KiB; afterwards ${numbers.length} records and ${gaps.length} gap record(s) of ${dropped} add up to ${last}, ` +
      "every report is acknowledged, the waiting release and configs are applied",
  );
});
