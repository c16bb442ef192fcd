import { isTerminal, type Reason, type WaitingFor } from "@roamfleet/protocol";
import { counterOf, countReasons, countsOf, finalizeDeployment, isOver } from "../../../packages/server/src/features/deployments/state.ts";
import type { TargetChange } from "../../../packages/server/src/features/deployments/store/targets.ts";
import type { Chance } from "../chance.ts";
import type { ManualClock } from "../manual-clock.ts";
import type { Plant } from "../server.ts";
import { type App, type Deployment, noApp, noCounts, type Release, type RobotRow, type Target } from "./rows.ts";

/** The engine's change of a target, for a target in memory. */
export type Change = Omit<TargetChange, "target"> & { target: Target };

/** The pure server's tables, with the only function that changes targets. It does the same as `transition.ts`, on rows in memory. */
export class Tables {
  readonly deployments = new Map<string, Deployment>();
  readonly targets = new Map<string, Target>();
  readonly robots = new Map<string, RobotRow>();
  readonly releases = new Map<string, Release>();
  /** Robots to which a changed desired state must be sent. */
  readonly to_push = new Set<string>();
  /** With the planted fault `timer_lost_at_restart`: the targets whose timeouts this process remembers. */
  readonly remembered = new Set<string>();
  /** Increases with each change of a visible value. */
  version = 0;
  readonly clock: ManualClock;
  readonly chance: Chance;
  readonly plant: Plant | undefined;
  #ids = 0;
  #order_number = 0;

  constructor(clock: ManualClock, chance: Chance, plant: Plant | undefined) {
    this.clock = clock;
    this.chance = chance;
    this.plant = plant;
  }

  id(prefix: string): string {
    return `${prefix}_${String((this.#ids += 1)).padStart(6, "0")}`;
  }

  drawOrderNumber(): number {
    return (this.#order_number += 1);
  }

  orderNumberOf(deployment_id: string): number {
    return this.deployments.get(deployment_id)?.order_number ?? 0;
  }

  get now(): Date {
    return this.clock.now();
  }

  targetsOf(deployment_id: string): Target[] {
    return [...this.targets.values()].filter((target) => target.deployment_id === deployment_id);
  }

  appOf(robot_id: string, app: string): App {
    const robot = this.robots.get(robot_id);
    if (robot === undefined) throw new Error(`there is no robot ${robot_id}`);
    const known = robot.apps.get(app) ?? noApp(app);
    robot.apps.set(app, known);
    return known;
  }

  bump(robot_id: string): void {
    const robot = this.robots.get(robot_id);
    if (robot !== undefined) robot.generation += 1;
    this.to_push.add(robot_id);
  }

  /** Changes targets of one deployment, and updates the deployment. */
  move(deployment: Deployment, wanted: readonly Change[]): void {
    const checked = this.plant === "no_compare_and_set" ? wanted : wanted.filter(({ target }) => this.#isAsRead(target));
    if (checked.length === 0) return;
    this.version += 1;
    const delta = noCounts();
    for (const { target, to } of checked) {
      const from = counterOf(target.status);
      // Planted fault: count a requeued attempt in both states.
      if (!(this.plant === "counter_drift" && from === "active" && to === "queued")) delta[from] -= 1;
      delta[counterOf(to)] += 1;
      const wave = deployment.waves.find((one) => one.wave === target.wave);
      if (wave !== undefined) {
        wave[from] -= 1;
        wave[counterOf(to)] += 1;
      }
    }
    deployment.reason_counts = countReasons(deployment.reason_counts, checked);
    const dispatched = checked.filter(({ target, to }) => target.attempt === 0 && (to === "dispatched" || to === "failed")).length;
    const after = finalizeDeployment(deployment, delta, dispatched);
    for (const change of checked) this.#write(change);
    this.#count(deployment, delta, dispatched);
    if (after.halt === "stop") deployment.stop_requested_at ??= this.now;
    if (after.halt === "rollback") deployment.rollback_requested_at ??= this.now;
    if (after.halt === "pause") deployment.paused_at ??= this.now;
    deployment.events += checked.length;
    deployment.step_at = this.now;
    this.say(deployment, after.status, after.reason);
    const ended = checked.filter(({ to }) => isTerminal(to));
    for (const { target } of ended) this.wakeRobot(target.robot_id, "previous_deployment");
  }

  /** Compare-and-set: reports whether a target still has the state that was read. */
  #isAsRead(read: Target): boolean {
    const row = this.targets.get(read.id);
    return row !== undefined && row.status === read.status && row.attempt === read.attempt;
  }

  #write({ target, ...change }: Change): void {
    const row = this.targets.get(target.id);
    if (row === undefined) throw new Error(`there is no target ${target.id}`);
    row.status = change.to;
    row.reason = change.reason;
    row.waiting_for = change.waiting_for ?? null;
    row.attempt = change.attempt ?? target.attempt;
    row.deadline_at = change.deadline_at ?? null;
    row.not_before_at = change.not_before_at ?? null;
    if (change.previous_release_id !== undefined) row.previous_release_id = change.previous_release_id;
    if (change.reverting !== undefined) row.reverting = change.reverting;
    if (change.to === "dispatched") row.dispatches += 1;
    if (row.deadline_at !== null) this.remembered.add(row.id);
  }

  #count(deployment: Deployment, delta: ReturnType<typeof noCounts>, dispatched: number): void {
    deployment.count_pending += delta.pending;
    deployment.count_queued += delta.queued;
    deployment.count_active += delta.active;
    deployment.count_applied += delta.applied;
    deployment.count_failed += delta.failed;
    deployment.count_rolled_back += delta.rolled_back;
    deployment.count_cancelled += delta.cancelled;
    deployment.count_dispatched += dispatched;
  }

  /** Sets a deployment's status, and records an event if it changed. */
  say(deployment: Deployment, status: Deployment["status"], reason: Reason | null): void {
    this.version += 1;
    deployment.reason = reason;
    if (status === deployment.status) return;
    deployment.status = status;
    deployment.told.push(status);
    deployment.events += 1;
    if (isTerminal(status)) deployment.finished_at = this.now;
  }

  endIfOver(deployment: Deployment): void {
    if (deployment.fan_out_done_at === null || !isOver(countsOf(deployment), deployment.status)) return;
    const { status, reason } = finalizeDeployment(deployment, noCounts(), 0);
    this.say(deployment, status, reason);
  }

  wakeRobot(robot_id: string, waiting_for: WaitingFor): void {
    for (const target of this.targets.values())
      if (target.robot_id === robot_id && target.status === "queued" && target.waiting_for === waiting_for) target.waiting_for = null;
  }

  /** Makes the robots' current releases desired again, because the targets ended without applying the new ones. */
  revertDesiredState(targets: readonly Pick<Target, "id" | "robot_id" | "subject">[]): void {
    for (const { id, robot_id, subject } of targets) {
      const app = this.appOf(robot_id, subject);
      if (app.target_id !== id) continue;
      this.version += 1;
      app.desired_release_id = app.current_release_id;
      app.target_id = null;
      app.deployment_id = null;
      this.bump(robot_id);
    }
  }
}
