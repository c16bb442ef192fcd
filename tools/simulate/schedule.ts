import { isTerminal } from "@roamfleet/protocol";
import { Chance } from "./chance.ts";
import type { Coverage } from "./coverage.ts";
import { followExplanation } from "./follow-explanation.ts";
import { Broken, checkEnd, checkLate, checkMoment, checkStep } from "./invariants.ts";
import type { ManualClock } from "./manual-clock.ts";
import { HEALTHY, type Link, MORE_PROBABILITY, Robot } from "./robot.ts";
import { anyOperation } from "./operations.ts";
import { anyBehavior, anySetting } from "./scene.ts";
import { type Fate, Killed, LOOPS, type Loop, type Names, type SimulatedServer, type View } from "./server.ts";
import { LOOP_WEIGHTS, type Theme, THEMES } from "./themes.ts";

export const STARTS_AT = Date.parse("2030-01-01T00:00:00Z");
/** Deployments without an expiry in their policy expire after this time. */
export const EXPIRY_HOURS = 3;
const STEPS_MIN = 30;
/** Maximum rounds without failures until all deployments must have ended. */
const CALM_ROUNDS_MAX = 60;
const CALM_ROUND_MS = 120_000;
const SECOND_MS = 1_000;
const KILL_PROBABILITY = 0.03;
const LOST_PROBABILITY = 0.15;

export interface Result {
  seed: number;
  steps: number;
  /** The violated rule and its step; undefined: none was violated. */
  broken: { rule: string; step: number; trace: string[] } | undefined;
}

export interface ScheduleOptions {
  seed: number;
  /** Upper bound (exclusive) of the random number of steps beyond STEPS_MIN. */
  steps_more: number;
  /** Creates a server for this schedule, on its clock. */
  server: (clock: ManualClock, chance: Chance) => SimulatedServer | Promise<SimulatedServer>;
  clock: (chance: Chance) => ManualClock;
  coverage: Coverage;
}

/** Runs one schedule to its end, or to the first violated rule. */
export async function runSchedule(options: ScheduleOptions): Promise<Result> {
  const { seed } = options;
  const chance = new Chance(seed);
  const clock = options.clock(chance);
  const server = await options.server(clock, chance);
  const schedule = new Schedule(chance, clock, server, options);
  try {
    await schedule.run();
    return { seed, steps: schedule.steps, broken: undefined };
  } catch (error) {
    if (!(error instanceof Broken)) throw new Error(`seed ${seed}, step ${schedule.steps}: ${String(error)}`, { cause: error });
    return { seed, steps: schedule.steps, broken: { rule: error.message, step: schedule.steps, trace: schedule.trace } };
  } finally {
    await server.stop();
  }
}

type Action = () => Promise<void>;

class Schedule {
  steps = 0;
  /** The performed actions, one line each. */
  readonly trace: string[] = [];
  readonly #chance: Chance;
  readonly #theme: Theme;
  readonly #clock: ManualClock;
  readonly #server: SimulatedServer;
  readonly #coverage: Coverage;
  readonly #steps_more: number;
  readonly #robots = new Map<string, Robot>();
  readonly #removed = new Set<string>();
  /** Robots that never reconnect. */
  readonly #lost = new Set<string>();
  #names: Names = { robots: [], fleets: [], releases: [] };
  /** Whether the present step delivered a report. */
  #reported = false;
  #view: View = { deployments: [], targets: [], robots: [] };

  constructor(
    chance: Chance,
    clock: ManualClock,
    server: SimulatedServer,
    { coverage, steps_more }: Pick<ScheduleOptions, "coverage" | "steps_more">,
  ) {
    this.#steps_more = steps_more;
    this.#chance = chance;
    this.#theme = chance.of(THEMES);
    this.#clock = clock;
    this.#server = server;
    this.#coverage = coverage;
  }

  async run(): Promise<void> {
    this.#names = await this.#server.setUp(anySetting(this.#chance));
    for (const id of this.#names.robots) this.#robots.set(id, new Robot(id, this.#clock));
    for (const robot of this.#robots.values())
      if (this.#chance.happens(0.8)) await this.#step(`connect ${robot.id}`, () => this.#connect(robot));
    // With a first release installed, robots can roll back to it.
    if (this.#chance.happens(0.6)) await this.#installFirst();
    const steps = STEPS_MIN + this.#chance.below(this.#steps_more);
    for (let step = 0; step < steps; step += 1) await this.#anyStep();
    await this.#followExplanation();
    await this.#finish();
  }

  /** Installs the first release on all robots, without failures. */
  async #installFirst(): Promise<void> {
    for (const fleet of this.#names.fleets.keys())
      await this.#step("the first release", async () => {
        await this.#server.perform({ type: "create", release: 0, robot: null, fleet, scheduled_in_ms: null, rollout: {} }, "lives");
      });
    await this.#busy("dispatch");
    for (const robot of this.#robots.values()) await this.#deliverAll(robot);
  }

  /** Performs one step, delivers the resulting messages, and checks the rules. */
  async #step(name: string, action: Action): Promise<void> {
    this.steps += 1;
    this.trace.push(`${this.#clock.now().toISOString().slice(11)} ${name}`);
    try {
      await action();
    } catch (error) {
      if (!(error instanceof Killed)) throw error;
      this.trace.push("  the server was killed");
      await this.#serverRestarts();
    }
    for (const robot of this.#robots.values()) if (robot.crashed) await this.#crash(robot);
    for (const [robot_id, desired] of await this.#server.takePushes()) this.#robots.get(robot_id)?.link?.down.push(desired);
    const before = this.#view;
    this.#view = await this.#server.look();
    if (this.#view === before) return;
    this.#coverage.moves(before, this.#view, this.#reported);
    this.#reported = false;
    checkStep(before, this.#view, this.#clock.now().getTime());
    checkMoment(this.#view, this.#robots, this.#clock.now().getTime());
  }

  async #serverRestarts(): Promise<void> {
    for (const robot of this.#robots.values()) robot.cut(0);
    for (const robot of this.#robots.values()) robot.late = [];
    await this.#server.restart();
  }

  #fate(): Fate {
    if (!this.#chance.happens(KILL_PROBABILITY)) return "lives";
    return this.#chance.of<Fate>(["dies_before_commit", "dies_after_commit"]);
  }

  /** Performs a random action that is possible at present. */
  async #anyStep(): Promise<void> {
    const chance = this.#chance;
    const theme = this.#theme;
    const all = [...this.#robots.values()].filter(({ id }) => !this.#removed.has(id));
    const some = (name: string, weight: number, robots: readonly Robot[], work: (robot: Robot) => Promise<void> | void) =>
      [
        robots.length === 0 ? 0 : weight,
        () => {
          const robot = chance.of(robots);
          return this.#step(`robot ${this.#names.robots.indexOf(robot.id)} ${name}`, async () => work(robot));
        },
      ] as const;
    const connected = all.filter(({ link }) => link !== undefined);
    await chance.weighted<() => Promise<void>>([
      [theme.operates, () => this.#operate()],
      some("behaves", theme.behaves, all, (robot) => void (robot.behavior = anyBehavior(chance))),
      some(
        "connects",
        8,
        all.filter(({ link }) => link === undefined),
        (robot) => this.#connect(robot),
      ),
      some("loses its link", theme.breaks, connected, (robot) => this.#cut(robot)),
      some("crashes", theme.breaks, all, (robot) => this.#crash(robot)),
      some("will crash before its next report", theme.crashes_before_report, all, (robot) => void (robot.will_crash = true)),
      some(
        "is heard",
        30,
        connected.filter(({ link }) => (link?.up.length ?? 0) > 0),
        (robot) => this.#deliverReports(robot, robot.link),
      ),
      some(
        "hears",
        25,
        connected.filter(({ link }) => (link?.down.length ?? 0) > 0),
        (robot) => robot.hear(this.#chance),
      ),
      some(
        "is heard late",
        theme.is_late,
        all.filter(({ late }) => late.length > 0),
        (robot) => this.#deliverLateReports(robot),
      ),
      [20, () => this.#turn(chance.weighted<Loop>(LOOP_WEIGHTS))],
      [theme.time, () => this.#advance(chance.of([1, 5, 15, 30, 60, 130, 700, 1_000, 4_000]) * SECOND_MS)],
      [0.7, () => this.#step("the server restarts", () => this.#serverRestarts())],
    ])();
  }

  async #turn(loop: Loop): Promise<void> {
    const fate = this.#fate();
    await this.#step(`loop ${loop}${fate === "lives" ? "" : ` ${fate}`}`, async () => void (await this.#server.turn(loop, fate)));
    if (loop === "deadlines" && fate === "lives") checkLate(this.#view, this.#clock.now().getTime());
  }

  async #advance(ms: number): Promise<void> {
    await this.#step(`${ms / SECOND_MS} s pass`, async () => this.#clock.advance(ms));
  }

  async #operate(): Promise<void> {
    const operation = anyOperation({
      chance: this.#chance,
      now: this.#clock.now(),
      names: this.#names,
      view: this.#view,
      removes: this.#theme.removes,
    });
    const fate = this.#fate();
    const deployment = "deployment_id" in operation ? this.#view.deployments.find(({ id }) => id === operation.deployment_id) : undefined;
    await this.#step(`${JSON.stringify(operation)}${fate === "lives" ? "" : ` ${fate}`}`, async () => {
      this.#coverage.operation(deployment, operation.type);
      const answer = await this.#server.perform(operation, fate);
      if (answer === "refused") this.trace.push("  refused");
      else if (operation.type === "remove_robot") this.#remove(operation.robot);
    });
  }

  #remove(index: number): void {
    const robot = this.#robots.get(this.#names.robots[index] ?? "");
    if (robot === undefined) return;
    robot.cut(Infinity);
    this.#removed.add(robot.id);
  }

  async #connect(robot: Robot): Promise<void> {
    if (robot.link !== undefined || this.#removed.has(robot.id)) return;
    const { outbox, generation } = robot;
    robot.welcome(await this.#server.connect(robot.id, { outbox_id: outbox.outbox_id, generation }));
  }

  async #cut(robot: Robot): Promise<void> {
    if (robot.link === undefined) return;
    robot.cut(this.#chance.below(robot.link.up.length + 1));
    await this.#server.disconnect(robot.id);
  }

  async #crash(robot: Robot): Promise<void> {
    const connected = robot.link !== undefined;
    robot.crash();
    if (connected) await this.#server.disconnect(robot.id);
  }

  /** Delivers the next reports of the robot's link. One may be delivered twice. */
  async #deliverReports(robot: Robot, link: Link | undefined): Promise<void> {
    const report = link?.up.shift();
    if (link === undefined || report === undefined) return;
    if (this.#chance.happens(0.05)) link.up.unshift(report);
    await this.#deliver(robot, report, link);
    if (robot.link === link && this.#chance.happens(MORE_PROBABILITY))
      await this.#step("  and more", () => this.#deliverReports(robot, link));
  }

  async #deliverLateReports(robot: Robot): Promise<void> {
    const link = robot.late[0];
    const report = link?.up.shift();
    if (link === undefined || report === undefined) return;
    if (link.up.length === 0) robot.late.shift();
    await this.#deliver(robot, report, undefined);
  }

  async #deliver(robot: Robot, report: Link["up"][number], link: Link | undefined): Promise<void> {
    this.#reported = true;
    const { body } = report;
    if (body.kind === "target") {
      this.#coverage.report(
        this.#view.targets.find(({ id }) => id === body.target_id),
        body.attempt,
        body.status,
      );
      this.trace.push(`  ${body.target_id.slice(-4)} attempt ${body.attempt} ${body.status}`);
    }
    try {
      await this.#server.report(robot.id, robot.outbox.outbox_id, report, this.#fate());
    } catch (error) {
      if (error instanceof Killed && error.answered) robot.outbox.acknowledge(report.seq);
      throw error;
    }
    link?.down.push({ type: "ack", seq: report.seq });
    // The report is stored, but its acknowledgment is lost.
    if (link !== undefined && robot.link === link && this.#chance.happens(0.03)) await this.#cut(robot);
  }

  /** Follows the explanation of one target that waits. Only the pure server explains here. */
  async #followExplanation(): Promise<void> {
    const waiting = this.#view.targets.filter(
      ({ status, robot_id }) => (status === "pending" || status === "queued") && !this.#removed.has(robot_id),
    );
    const explain = this.#server.explain?.bind(this.#server);
    if (explain === undefined || waiting.length === 0) return;
    for (const robot of this.#robots.values()) robot.behavior = HEALTHY;
    await followExplanation(this.#chance.of(waiting).id, {
      names: this.#names,
      now: () => this.#clock.now(),
      targets: () => this.#view.targets,
      explain: (target_id) => {
        const unmet = explain(target_id).filter(({ met }) => met === false);
        this.trace.push(`  ${target_id} is explained by ${unmet.map(({ name }) => name).join(", ")}`);
        return unmet;
      },
      perform: (operation) => this.#step("as explained", async () => void (await this.#server.perform(operation, "lives"))),
      connect: async (robot_id) => {
        const robot = this.#robots.get(robot_id);
        if (robot !== undefined) await this.#step("a robot connects as explained", () => this.#connect(robot));
      },
      advance: (ms) => this.#advance(ms),
      settle: async () => {
        for (const loop of LOOPS) while (await this.#busy(loop));
        for (const robot of this.#robots.values()) await this.#deliverAll(robot);
        for (const loop of LOOPS) while (await this.#busy(loop));
      },
    });
  }

  /** No more failures: all deployments must end, each robot must run the desired release, and nothing may wait. */
  async #finish(): Promise<void> {
    for (const robot of this.#robots.values()) {
      if (this.#chance.happens(LOST_PROBABILITY)) await this.#step("a robot is lost for good", () => this.#lose(robot));
      else await this.#step("a robot is healthy again", () => this.#heal(robot));
    }
    for (let round = 0; ; round += 1) {
      await this.#exchange();
      if (this.#isIdle()) break;
      if (round === CALM_ROUNDS_MAX) break;
      await this.#advance(CALM_ROUND_MS * 2 ** Math.min(4, Math.floor(round / 6)));
    }
    for (const id of this.#lost) this.#robots.delete(id);
    checkEnd(this.#view, this.#robots);
  }

  /** Stops a robot forever. It may stay connected without sending anything. */
  async #lose(robot: Robot): Promise<void> {
    this.#lost.add(robot.id);
    for (const app of robot.apps.values()) app.stop();
    if (this.#chance.happens(0.5)) await this.#cut(robot);
    robot.late = [];
  }

  async #heal(robot: Robot): Promise<void> {
    if (this.#removed.has(robot.id)) return;
    robot.behavior = HEALTHY;
    const connected = robot.link !== undefined;
    robot.crash();
    if (connected) await this.#server.disconnect(robot.id);
    robot.late = [];
    await this.#connect(robot);
  }

  /** Runs every loop until it has nothing to do, and delivers all messages. */
  async #exchange(): Promise<void> {
    for (const loop of LOOPS) while (await this.#busy(loop));
    for (const robot of this.#robots.values()) {
      if (this.#lost.has(robot.id)) continue;
      if (robot.link === undefined && !this.#removed.has(robot.id)) await this.#step("a robot comes back", () => this.#connect(robot));
      await this.#deliverAll(robot);
    }
  }

  /** Delivers all messages in transit, and those that they cause. */
  async #deliverAll(robot: Robot): Promise<void> {
    const { link } = robot;
    while (link !== undefined && link.up.length + link.down.length > 0) {
      for (let report = link.up.shift(); report !== undefined; report = link.up.shift()) {
        const arriving = report;
        await this.#step("a report arrives", async () => {
          this.#reported = true;
          await this.#server.report(robot.id, robot.outbox.outbox_id, arriving, "lives");
          link.down.push({ type: "ack", seq: arriving.seq });
        });
      }
      for (const message of link.down.splice(0)) robot.take(message);
    }
  }

  async #busy(loop: Loop): Promise<boolean> {
    let more = false;
    await this.#step(`loop ${loop}`, async () => void (more = await this.#server.turn(loop, "lives")));
    return more;
  }

  #isIdle(): boolean {
    const robots = [...this.#robots.values()].filter(({ id }) => !this.#removed.has(id) && !this.#lost.has(id));
    return (
      this.#view.deployments.every(({ status }) => isTerminal(status)) &&
      robots.every(
        ({ idle, link, outbox }) => idle && link !== undefined && link.up.length + link.down.length === 0 && outbox.waiting.length === 0,
      )
    );
  }
}
