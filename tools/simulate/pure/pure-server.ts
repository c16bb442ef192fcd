import { isTerminal } from "@roamfleet/protocol";
import type { Desired, DesiredApp, Report } from "@roamfleet/protocol/link";
import type { Condition } from "../../../packages/server/src/features/deployments/explain/conditions.ts";
import { retryAt } from "../../../packages/server/src/features/deployments/policy.ts";
import {
  afterTimeout,
  countsOf,
  isActive,
  isAwaited,
  isRevocable,
  requestsOf,
  taskOf,
} from "../../../packages/server/src/features/deployments/state.ts";
import { isLimited } from "../../../packages/server/src/features/deployments/dispatch/slots.ts";
import type { Chance } from "../chance.ts";
import type { ManualClock } from "../manual-clock.ts";
import {
  type Answer,
  type Fate,
  Killed,
  type Loop,
  type Names,
  type Operation,
  type Plant,
  type Setting,
  type SimulatedServer,
  type View,
} from "../server.ts";
import { claimable, dispatch } from "./dispatch.ts";
import { explain } from "./explain.ts";
import { begin, callOff, operate, rollBackOpen } from "./operate.ts";
import { takeReport } from "./report.ts";
import { advance } from "./rollout.ts";
import type { App, Deployment, Target } from "./rows.ts";
import { type Change, Tables } from "./tables.ts";

/**
 * The deployment engine in memory: the engine's own pure functions (state, decide, settle, the steps of a rollout) on rows. Each operation
 * changes its rows atomically, like a transaction.
 */
export class PureServer implements SimulatedServer {
  readonly #tables: Tables;
  /** The latest view, and the version of the tables that it shows. */
  #seen: { view: View; version: number } | undefined;
  #names: Names = { robots: [], fleets: [], releases: [] };
  /** With the planted fault `no_compare_and_set`: the targets found by the previous run of dispatch. */
  #found: Target[] = [];

  constructor(clock: ManualClock, chance: Chance, plant?: Plant) {
    this.#tables = new Tables(clock, chance, plant);
  }

  async setUp({ fleets, releases, incompatible_release }: Setting): Promise<Names> {
    const { robots: rows } = this.#tables;
    const robots = fleets.flatMap((count, fleet) =>
      Array.from({ length: count }, () => ({ id: this.#tables.id("rob"), fleet_id: `fleet_${fleet}` })),
    );
    for (const [index, robot] of robots.entries())
      rows.set(robot.id, {
        ...robot,
        labels: index % 2 === 1 ? { zone: "a" } : {},
        online: false,
        decommissioned: false,
        generation: 0,
        outbox_id: "",
        outbox_seq: 0,
        apps: new Map(),
      });
    for (const [index, app] of releases.entries()) {
      const id = this.#tables.id("rel");
      this.#tables.releases.set(id, { id, app, kind: index === incompatible_release ? "firmware" : "app_bundle" });
    }
    this.#names = {
      robots: robots.map(({ id }) => id),
      fleets: fleets.map((_, fleet) => `fleet_${fleet}`),
      releases: [...this.#tables.releases.keys()],
    };
    return this.#names;
  }

  /** Runs one operation as a transaction: completely or not at all. */
  #doing<T>(fate: Fate, work: () => T): T {
    if (fate === "dies_before_commit") throw new Killed();
    const value = work();
    if (fate === "dies_after_commit") throw new Killed();
    return value;
  }

  async perform(operation: Operation, fate: Fate): Promise<Answer> {
    this.#tables.version += 1;
    return this.#doing(fate, () => operate(this.#tables, this.#names, operation));
  }

  async connect(robot_id: string, { outbox_id, generation }: { outbox_id: string; generation: number }) {
    const robot = this.#robot(robot_id);
    this.#tables.version += 1;
    robot.online = true;
    this.#tables.wakeRobot(robot_id, "robot_online");
    const desired = this.#desiredOf(robot_id);
    return {
      acked_seq: robot.outbox_id === outbox_id ? robot.outbox_seq : 0,
      desired: desired.generation >= generation ? desired : undefined,
    };
  }

  async disconnect(robot_id: string): Promise<void> {
    this.#tables.version += 1;
    this.#robot(robot_id).online = false;
  }

  #robot(robot_id: string) {
    const robot = this.#tables.robots.get(robot_id);
    if (robot === undefined) throw new Error(`there is no robot ${robot_id}`);
    return robot;
  }

  async report(robot_id: string, outbox_id: string, report: Report, fate: Fate): Promise<void> {
    this.#tables.version += 1;
    if (this.#tables.plant === "ack_before_commit" && fate === "dies_before_commit") throw new Killed(true);
    this.#doing(fate, () => takeReport(this.#tables, this.#robot(robot_id), outbox_id, report));
  }

  async turn(loop: Loop, fate: Fate): Promise<boolean> {
    return this.#doing(fate, () => {
      switch (loop) {
        case "schedule":
          return this.#releaseDue();
        case "rollouts":
          return this.#open(
            ({ step_at }) => step_at !== null && step_at <= this.#tables.now,
            (one) => advance(this.#tables, one),
          );
        case "dispatch":
          return this.#dispatch();
        case "cancellations":
          return this.#open(
            (one) => one.cancel_requested_at !== null && one.rollback_requested_at === null && this.#isUntold(one),
            (one) => callOff(this.#tables, one, "user_cancelled"),
          );
        case "rollbacks":
          return this.#open(
            (one) => one.status === "rolling_back" && (one.count_applied > 0 || this.#isUntold(one)),
            (one) => rollBackOpen(this.#tables, one),
          );
        case "deadlines":
          return this.#endLateSteps();
        case "expiry":
          return this.#open(
            ({ expires_at }) => expires_at !== null && expires_at <= this.#tables.now,
            (one) => this.#expire(one),
          );
        case "repair":
          this.#repair();
          return false;
        // Nothing to do: this server writes all targets of a deployment when the deployment starts.
        case "fan_out":
          return false;
      }
    });
  }

  /** Reports whether a target of a cancelled deployment is still queued, or its robot has not been notified. */
  #isUntold(deployment: Deployment): boolean {
    if (deployment.count_pending + deployment.count_queued > 0) return true;
    return this.#tables
      .targetsOf(deployment.id)
      .some(({ id, robot_id, subject, status }) => isRevocable(status) && this.#robot(robot_id).apps.get(subject)?.target_id === id);
  }

  /** Runs `work` for every open deployment that is due. */
  #open(isTime: (deployment: Deployment) => boolean, work: (deployment: Deployment) => void): boolean {
    const found = [...this.#tables.deployments.values()].filter((one) => !isTerminal(one.status) && isTime(one));
    for (const deployment of found) work(deployment);
    return false;
  }

  /** Starts due deployments. As in the server, dispatches a single-robot deployment in this step if it is the robot's only new one. */
  #releaseDue(): boolean {
    const started = new Set<string>();
    this.#open(
      ({ status, scheduled_at }) => status === "scheduled" && scheduled_at !== null && scheduled_at <= this.#tables.now,
      (deployment) => {
        this.#tables.say(deployment, "queued", null);
        begin(this.#tables, deployment);
        if (deployment.robot_id !== null && !isLimited(deployment)) started.add(deployment.id);
      },
    );
    const targets = claimable(this.#tables).filter(({ deployment_id }) => started.has(deployment_id));
    const alone = [...Map.groupBy(targets, ({ robot_id }) => robot_id).values()].filter((own) => own.length === 1);
    dispatch(this.#tables, alone.flat());
    return false;
  }

  #dispatch(): boolean {
    const found = claimable(this.#tables);
    if (this.#tables.plant === "no_compare_and_set") {
      dispatch(this.#tables, this.#found);
      this.#found = found.map((target) => ({ ...target }));
      return false;
    }
    const read = found.map((target) => ({ ...target }));
    dispatch(this.#tables, found);
    // Planted fault: a second node dispatches the same targets again.
    if (this.#tables.plant === "double_dispatch" && this.#tables.chance.happens(0.3))
      for (const target of read) {
        const row = this.#tables.targets.get(target.id);
        if (row?.status !== "dispatched") continue;
        row.dispatches += 1;
        this.#tables.version += 1;
      }
    return false;
  }

  #endLateSteps(): boolean {
    const { targets, deployments, now, plant, remembered } = this.#tables;
    const late = [...targets.values()].filter(
      ({ id, status, deadline_at }) =>
        isActive(status) && deadline_at !== null && deadline_at <= now && (plant !== "timer_lost_at_restart" || remembered.has(id)),
    );
    for (const target of late) {
      const deployment = deployments.get(target.deployment_id);
      if (deployment === undefined) continue;
      const online = this.#robot(target.robot_id).online;
      const state = { status: target.status, attempt: target.attempt, task: taskOf(target) };
      if (isAwaited(state, { online }) && deployment.expires_at !== null) {
        target.deadline_at = deployment.expires_at;
        this.#tables.version += 1;
        continue;
      }
      const after = afterTimeout(state, { ...requestsOf(deployment), online });
      const change: Change = {
        target: { ...target },
        to: after.to,
        reason: after.reason,
        not_before_at: after.to === "queued" ? retryAt(target.attempt, now) : null,
      };
      if (isTerminal(after.to)) this.#tables.revertDesiredState([target]);
      this.#tables.move(deployment, [change]);
    }
    return false;
  }

  #expire(deployment: Deployment): void {
    const own = this.#tables.targetsOf(deployment.id);
    const targets = own.filter(({ status }) => status === "pending" || status === "queued" || isRevocable(status));
    const returning = own.filter(({ status, reverting }) => status === "rolling_back" && reverting);
    this.#tables.revertDesiredState([...targets, ...returning]);
    this.#tables.move(deployment, [
      ...targets.map((target): Change => ({ target: { ...target }, to: "cancelled", reason: "expired" })),
      ...returning.map((target): Change => ({ target: { ...target }, to: "failed", reason: "rollback_failed" })),
    ]);
  }

  #repair(): void {
    for (const target of this.#tables.targets.values()) {
      if (target.status !== "queued") continue;
      const robot = this.#robot(target.robot_id);
      if (target.waiting_for === "robot_online" && robot.online) target.waiting_for = null;
      if (target.waiting_for !== "previous_deployment") continue;
      const busy = [...this.#tables.targets.values()].some(
        ({ robot_id, status }) =>
          robot_id === target.robot_id && (status === "installing" || status === "verifying" || status === "rolling_back"),
      );
      if (!busy) target.waiting_for = null;
    }
  }

  async takePushes(): Promise<ReadonlyMap<string, Desired>> {
    const ids = [...this.#tables.to_push];
    this.#tables.to_push.clear();
    return new Map(ids.filter((id) => this.#robot(id).online).map((id) => [id, this.#desiredOf(id)]));
  }

  #desiredOf(robot_id: string): Desired {
    const { generation, apps } = this.#robot(robot_id);
    const wanted = [...apps.values()].filter(({ desired_release_id, target_id }) => desired_release_id !== null || target_id !== null);
    return { type: "desired", generation, apps: Object.fromEntries(wanted.map((app) => [app.app, this.#desiredApp(app)])), configs: {} };
  }

  #desiredApp({ desired_release_id, target_id, deployment_id, attempt, verify_seconds }: App): DesiredApp {
    const release = this.#tables.releases.get(desired_release_id ?? "");
    return {
      release:
        release === undefined
          ? null
          : { id: release.id, tag: release.id, kind: release.kind, artifact_sha256: "", artifact_size: 3, image: null, manifest: null },
      target_id,
      deployment_id,
      attempt,
      policy: { verify_seconds },
    };
  }

  explain(target_id: string): Condition[] {
    return explain(this.#tables, target_id);
  }

  async restart(): Promise<void> {
    this.#tables.version += 1;
    for (const robot of this.#tables.robots.values()) robot.online = false;
    this.#tables.to_push.clear();
    this.#tables.remembered.clear();
    this.#found = [];
  }

  async look(): Promise<View> {
    const { version } = this.#tables;
    if (this.#seen?.version !== version) this.#seen = { version, view: this.#show() };
    return this.#seen.view;
  }

  #show(): View {
    const { deployments, targets, robots } = this.#tables;
    return {
      deployments: Array.from(deployments.values(), (one) => ({
        id: one.id,
        target_kind: one.target_kind,
        status: one.status,
        reason: one.reason,
        counts: countsOf(one),
        whole: one.fan_out_done_at !== null,
        cancel_requested: one.cancel_requested_at !== null,
        stopped: one.stop_requested_at !== null,
        rollback_requested: one.rollback_requested_at !== null,
        scheduled_at: one.scheduled_at?.getTime() ?? null,
        expires_at: one.expires_at?.getTime() ?? null,
        wave: one.current_wave,
        waves: one.wave_count,
        count_dispatched: one.count_dispatched,
        rollout: one.rollout,
        told: [...one.told],
        event_count: one.events,
        last_event_seq: one.events,
      })),
      targets: Array.from(targets.values(), (one) => ({
        id: one.id,
        deployment_id: one.deployment_id,
        robot_id: one.robot_id,
        app: one.subject,
        order_number: this.#tables.orderNumberOf(one.deployment_id),
        release_id: one.release_id,
        previous_release_id: one.previous_release_id,
        status: one.status,
        reason: one.reason,
        attempt: one.attempt,
        wave: one.wave,
        deadline_at: one.deadline_at?.getTime() ?? null,
        reverting: one.reverting,
        dispatches: one.dispatches,
      })),
      robots: Array.from(robots.values(), ({ id, decommissioned, online, outbox_seq, apps }) => ({
        id,
        removed: decommissioned,
        online,
        acked_seq: outbox_seq,
        apps: Array.from(apps.values(), ({ app, current_release_id, desired_release_id, target_id }) => ({
          app,
          current_release_id,
          desired_release_id,
          target_id,
        })),
      })),
    };
  }

  async stop(): Promise<void> {}
}
