import { isWanted, plan, type Step } from "@roamfleet/agent/deployments/plan";
import {
  type AppState,
  emptyState,
  type Failure,
  type Finished,
  FINISHED_MAX,
  finishedTarget,
  namesTarget,
  type Phase,
  type DesiredAppState,
  type Work,
} from "@roamfleet/agent/deployments/state";
import type { Clock, Timer } from "@roamfleet/clock";
import type { DesiredApp, DesiredRelease, ReportBody, ReportedStatus } from "@roamfleet/protocol/link";

/** The parts of a simulated robot that an app uses. */
export interface AppHost {
  readonly clock: Clock;
  readonly kinds: readonly string[];
  behaviorOf(release: DesiredRelease): Behavior;
  report(body: ReportBody): void;
  /** Reports the progress of a download; not durable. */
  progress(target_id: string, attempt: number, bytes_done: number, bytes_total: number): void;
  /** Drops the link after pending reports were sent. */
  loseLink(): void;
}

/** Maximum consecutive steps without waiting; the agent's plan never needs as many. */
const STEPS_AT_ONCE_MAX = 100;
/** Maximum delay until a maintenance window is checked again. It is needed because windows may be months away. */
const WINDOW_LOOK_MS = 3_600_000;

/** One app of a simulated robot: the agent's own plan, with behaviors instead of executors. */
export class AppRunner {
  readonly app: string;
  readonly #robot: AppHost;
  #state: AppState;
  #wish: DesiredAppState = "unknown";
  #timer: Timer | undefined;
  /** Whether the robot is stuck: it reports nothing more for the current work. */
  #stuck = false;
  /** True after an install that belongs to no deployment has failed. The robot retries it only when the desired state changes. */
  #gave_up = false;

  constructor(app: string, robot: AppHost) {
    this.app = app;
    this.#robot = robot;
    this.#state = emptyState(app);
  }

  /** The running release and the current work. */
  get state(): AppState {
    return this.#state;
  }

  wishFor(wish: DesiredAppState): void {
    if (typeof wish === "object" && wish.release !== null && this.#robot.behaviorOf(wish.release).ignores === true) return;
    if (JSON.stringify(wish) !== JSON.stringify(this.#wish)) this.#gave_up = false;
    this.#wish = wish;
    const { work } = this.#state;
    if (work !== null && !this.#stuck && namesTarget(wish) && isWanted(work, wish) && wish.attempt > work.attempt) {
      this.#state = { ...this.#state, work: { ...work, attempt: wish.attempt } };
      this.#reportPhase();
    }
    const finished = work === null ? finishedTarget(this.#state, wish) : undefined;
    if (finished !== undefined) this.#reportFinished(finished);
    if (work !== null && (work.phase === "downloading" || work.phase === "staged") && !isWanted(work, wish) && !this.#stuck)
      this.#stopWaiting();
    if (this.#timer === undefined) this.#run();
  }

  /** Reports the running release and the latest work again, after each connect. */
  announce(): void {
    this.#reportApp();
    if (this.#stuck) return;
    const last = this.#state.finished.at(-1);
    if (this.#state.work !== null) this.#reportPhase();
    else if (last !== undefined) this.#reportFinished(last);
  }

  /** Cancels all waits; the app then reports nothing. */
  stop(): void {
    this.#stuck = true;
    this.#stopWaiting();
  }

  /** Restarts the agent: current work resumes from the journal. */
  resume(): void {
    this.#stopWaiting();
    this.#stuck = false;
    this.#run();
  }

  #stopWaiting(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #run(): void {
    for (let steps = 0; this.#timer === undefined && !this.#stuck; steps += 1) {
      if (steps > STEPS_AT_ONCE_MAX) throw new Error(`app ${this.app} does not converge`);
      const step = plan({
        state: this.#state,
        desired: this.#wish,
        kinds: this.#robot.kinds,
        running: this.#running(),
        may_start: true,
        may_install: true,
        server_now: this.#robot.clock.now().getTime(),
        may_converge: !this.#gave_up,
      });
      if (step.type === "idle") return;
      if (step.type === "await_window") return this.#awaitWindow(step.opens_at);
      this.#perform(step);
    }
  }

  /** Waits until `opens_at`. If it is null, only the next message of the server continues the work. */
  #awaitWindow(opens_at: number | null): void {
    if (opens_at === null) return;
    const { clock } = this.#robot;
    this.#timer = clock.setTimer(Math.min(opens_at - clock.now().getTime(), WINDOW_LOOK_MS), () => {
      this.#timer = undefined;
      this.#run();
    });
  }

  #running(): string | null {
    const { work, current } = this.#state;
    return (work?.phase === "installing" || work?.phase === "verifying" ? work.release : current)?.id ?? null;
  }

  #perform(step: Exclude<Step, { type: "idle" | "await_window" }>): void {
    switch (step.type) {
      case "ensure_running":
        throw new Error("a simulated app cannot have stopped");
      case "hold":
        throw new Error("nothing on a simulated robot holds an update back");
      case "refuse":
        return this.#end(step.desired, "failed", step.failure);
      case "confirm":
        return this.#end(step.desired, "applied", { reason: "already_installed", message: `release ${step.release.tag} runs already` });
      case "begin":
        return this.#enter({
          ...asked(step.desired),
          verify_seconds: step.desired.policy.verify_seconds,
          phase: step.phase,
          tries: 0,
          failure: null,
        });
      case "cancel":
        return this.#end(step.work, "cancelled", null);
      case "give_up":
        return this.#end(step.work, "failed", step.failure);
      case "stage":
        return this.#take(step.work, step.release, "downloading", "staged");
      case "install":
        return step.work.phase === "staged"
          ? this.#take(step.work, step.release, "staged", "installing")
          : this.#take(step.work, step.release, "installing", "verifying");
      case "verify":
        return this.#take(step.work, step.release, "verifying", "applied");
      case "roll_back":
        return this.#rollBack(step.work, step.release, step.failure);
      case "remove":
        return this.#end(
          step.work,
          "rolled_back",
          { reason: "rollback_requested", message: "stopped and removed" },
          { current: null, previous: null },
        );
    }
  }

  /** Waits for a step's duration, then continues with the next one or fails as the behavior defines. */
  #take(work: Work, release: DesiredRelease, step: Exclude<RobotStep, "rolling_back">, next: Phase | "applied"): void {
    const { failure } = this.#robot.behaviorOf(release);
    this.#spend(release, step, () => {
      const now = this.#state.work ?? work;
      if (failure?.at === step) return this.#failed(now, release, { reason: failure.reason, message: `simulated: ${failure.reason}` });
      if (next !== "applied") return this.#enter({ ...now, phase: next });
      const { current } = this.#state;
      this.#end(now, "applied", null, { current: release, previous: current?.id === release.id ? this.#state.previous : current });
    });
  }

  #failed(work: Work, release: DesiredRelease, failure: Failure): void {
    if (work.phase === "downloading" || work.phase === "staged") return this.#end(work, "failed", failure);
    this.#enter({ ...work, phase: "rolling_back", failure, release });
  }

  #rollBack(work: Work, release: DesiredRelease, failure: Failure): void {
    this.#spend(release, "rolling_back", () => {
      const now = this.#state.work ?? work;
      const old = this.#state.current;
      if (old === null) return this.#end(now, "failed", failure, { current: null, previous: null });
      if (this.#robot.behaviorOf(release).rollback_fails === true)
        return this.#end(now, "failed", { reason: "rollback_failed", message: `release ${old.tag} did not come back` });
      this.#end(now, "rolled_back", failure);
    });
  }

  #spend(release: DesiredRelease, step: RobotStep, then: () => void): void {
    const ms = this.#robot.behaviorOf(release).step_ms?.[step] ?? 0;
    if (ms === 0) return then();
    const { work } = this.#state;
    if (step === "downloading" && work?.target_id != null) this.#robot.progress(work.target_id, work.attempt, 0, release.artifact_size);
    this.#timer = this.#robot.clock.setTimer(ms, () => {
      this.#timer = undefined;
      then();
      this.#run();
    });
  }

  #enter(work: Work): void {
    this.#state = { ...this.#state, work };
    this.#reportPhase();
    if (work.release !== null && this.#robot.behaviorOf(work.release).stuck_at === work.phase) this.#stuck = true;
    this.#maybeLoseLink(work.release, work.phase);
  }

  #end(
    work: Pick<DesiredApp, "target_id" | "deployment_id" | "attempt" | "release">,
    status: Finished["status"],
    failure: Failure | null,
    runs: Pick<AppState, "current" | "previous"> = this.#state,
  ): void {
    const { target_id, deployment_id, attempt, release } = work;
    const finished: Finished = {
      target_id,
      deployment_id,
      attempt,
      release_id: release?.id ?? null,
      status,
      reason: failure?.reason ?? null,
      message: failure?.message ?? null,
      reported: true,
    };
    this.#state = {
      ...this.#state,
      current: runs.current,
      previous: runs.previous,
      work: null,
      finished: [...this.#state.finished, finished].slice(-FINISHED_MAX),
    };
    if (target_id === null && status === "failed") this.#gave_up = true;
    this.#reportFinished(finished);
    if (status !== "cancelled") this.#reportApp();
    this.#maybeLoseLink(release, status);
  }

  #maybeLoseLink(release: DesiredRelease | null, status: Phase | ReportedStatus): void {
    if (release !== null && this.#robot.behaviorOf(release).offline_at === status) this.#robot.loseLink();
  }

  #reportPhase(): void {
    const { work } = this.#state;
    if (work === null || work.target_id === null || work.deployment_id === null) return;
    const { target_id, deployment_id, attempt, phase, failure } = work;
    this.#robot.report({
      kind: "target",
      target_id,
      deployment_id,
      attempt,
      status: phase === "removing" ? "rolling_back" : phase,
      ...explain(failure),
    });
  }

  #reportFinished({ target_id, deployment_id, attempt, status, reason, message }: Finished): void {
    if (target_id === null || deployment_id === null) return;
    this.#robot.report({ kind: "target", target_id, deployment_id, attempt, status, ...explain({ reason, message }) });
  }

  #reportApp(): void {
    const { current, previous, work, finished } = this.#state;
    const under_way = work?.phase === "installing" || work?.phase === "verifying";
    const release = under_way ? work.release : current;
    if (release === null && finished.length === 0) return;
    const kept = under_way || work?.phase === "rolling_back" ? current : previous;
    const status = release === null ? "stopped" : under_way || work?.phase === "rolling_back" ? "starting" : "running";
    this.#robot.report({ kind: "app", app: this.app, release_id: release?.id ?? null, previous_release_id: kept?.id ?? null, status });
  }
}

const asked = ({
  target_id,
  deployment_id,
  attempt,
  release,
}: DesiredApp): Pick<Work, "target_id" | "deployment_id" | "attempt" | "release"> => ({ target_id, deployment_id, attempt, release });

function explain(why: { reason: string | null; message: string | null } | null): { reason?: string; message?: string } {
  return { ...(why?.reason ? { reason: why.reason } : {}), ...(why?.message ? { message: why.message } : {}) };
}

/** The steps of a simulated update; the behavior sets the duration of each. */
export const STEPS = ["downloading", "staged", "installing", "verifying", "rolling_back"] as const;
export type RobotStep = (typeof STEPS)[number];

/** How a robot handles a release. Default: every step immediately, then `applied`. */
export interface Behavior {
  /** Duration of each step in milliseconds; default 0. */
  step_ms?: Partial<Record<RobotStep, number>>;
  /** The robot fails in this step for this reason. If it has begun to install, it rolls back to its previous release, if any. */
  failure?: { at: Exclude<RobotStep, "rolling_back">; reason: string };
  /** The rollback fails too. */
  rollback_fails?: true;
  /** The robot reports this step and then nothing more: it does not continue, and it ignores a cancellation. */
  stuck_at?: RobotStep;
  /** Ignores the desired state. */
  ignores?: true;
  /** The robot drops its link right after it has reported this status, and continues offline. */
  offline_at?: ReportedStatus;
}

/** Completes all steps, each with the given duration in milliseconds. */
export const apply = (step_ms: Behavior["step_ms"] = {}): Behavior => ({ step_ms });

/** Like `apply`, with the same duration for every step. */
export const slow = (ms: number): Behavior => ({
  step_ms: { downloading: ms, staged: ms, installing: ms, verifying: ms, rolling_back: ms },
});

/** Ends `failed` before anything has changed on the robot: download failed, disk full, or bundle refused. */
export const fail = (reason: string, at: "downloading" | "staged" = "downloading", step_ms: Behavior["step_ms"] = {}): Behavior => ({
  step_ms,
  failure: { at, reason },
});

/** Starts the release, finds it unhealthy and rolls back; ends `failed` without a previous release. */
export const rollBack = (reason = "health_check_failed", step_ms: Behavior["step_ms"] = {}): Behavior => ({
  step_ms,
  failure: { at: "verifying", reason },
});

export const ignore: Behavior = { ignores: true };
export const stuckAt = (step: RobotStep): Behavior => ({ stuck_at: step });
export const offlineAt = (status: ReportedStatus, step_ms: Behavior["step_ms"] = {}): Behavior => ({ step_ms, offline_at: status });
