import { failpoint } from "@roamfleet/clock/failpoint";
import type { AppReport, TargetReport } from "@roamfleet/protocol/link";
import { timeLimit, exponentialMs } from "@roamfleet/clock";
import type { AppStatus, Clock, Logger, Reporter, WorkloadStatus } from "../contract.ts";
import type { Executor } from "../runtime/executor.ts";
import type { ProbeResult } from "../runtime/health-check.ts";
import { StepAborted, StepFailure } from "../runtime/failure.ts";
import type { Timing } from "../runtime/limits.ts";
import { ALWAYS, type Permission } from "../safety/permission.ts";
import type { Guard } from "../signing/admit-release.ts";
import { appStatus, type HeldStep, HeldUpdate } from "./app-status.ts";
import { applyStep, type Outcome, type StepContext } from "./apply.ts";
import type { AppState, DesiredAppState, Finished, Work } from "./state.ts";
import { emptyState, explain, FINISHED_MAX, finishedTarget, namesTarget, runningRelease } from "./state.ts";
import type { Journal } from "./journal.ts";
import { isWanted, plan, type Step } from "./plan.ts";

interface WorkerOptions {
  app: string;
  journal: Pick<Journal<AppState>, "records" | "append">;
  /** Deletes the app's staged releases except these. */
  keep_versions: (release_ids: readonly string[]) => void;
  executors: readonly Executor[];
  /** Checks a release's signature before it is installed. Absent: every release may be installed. */
  guard?: Guard | undefined;
  /** Decides whether the robot may be changed now. Absent: it always may be. */
  permission?: Permission | undefined;
  /** Returns the server's time in milliseconds since 1970. Absent: the robot's clock is used. */
  server_time?: (() => number) | undefined;
  clock: Clock;
  timing: Timing;
  log: Logger;
  reporter: Reporter;
  /** Called when a change of the app has ended, so that unused downloads can be deleted. */
  on_finished: () => void;
  on_step: (name: string) => void;
  /** Called when the return value of `status` has changed. */
  on_change?: (() => void) | undefined;
}

/** Maximum interval between checks of the update window. The check is repeated since the robot's time may be corrected. */
const WINDOW_LOOK_MS = 60_000;

/** Brings one app to its desired state, one step at a time, independently of the workers of other apps. */
export class AppWorker {
  readonly app: string;
  readonly #options: WorkerOptions;
  #desired: DesiredAppState = "unknown";
  #state: AppState;
  #stopped = false;
  #step: { type: Step["type"]; abort: AbortController } | undefined;
  #wake: (() => void) | undefined;
  #woken = false;
  #start_after = -Infinity;
  #start_failures = 0;
  #converge_after = -Infinity;
  #converge_failures = 0;
  #loop: Promise<void> | undefined;
  readonly #permission: Permission;
  readonly #held: HeldUpdate;

  constructor(options: WorkerOptions) {
    this.app = options.app;
    this.#options = options;
    this.#permission = options.permission ?? ALWAYS;
    this.#held = new HeldUpdate({ ...options, on_change: () => options.on_change?.() });
    this.#state = options.journal.records.get(options.app) ?? emptyState(options.app);
  }

  get state(): AppState {
    return this.#state;
  }

  start(): void {
    for (const finished of this.#state.finished) if (!finished.reported) this.#reportFinished(finished);
    this.#loop ??= this.#run();
  }

  /** Stops the worker and aborts the step in progress. After a restart, the journal resumes that step. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#step?.abort.abort();
    this.#wakeUp();
    await this.#loop;
  }

  setDesired(desired: DesiredAppState): void {
    this.#desired = desired;
    const { work } = this.#state;
    if (work !== null && namesTarget(desired) && isWanted(work, desired) && desired.attempt > work.attempt) {
      const adopted = { ...work, attempt: desired.attempt };
      this.#keep({ ...this.#state, work: adopted }, "could not write the number of the new attempt to the journal");
      this.#reportPhase(adopted);
    }
    const finished = work === null ? finishedTarget(this.#state, desired) : undefined;
    if (finished !== undefined) this.#reportFinished(finished);
    // Only staging can be aborted. An installation that has begun is finished or rolled back.
    if (this.#step?.type === "stage" && work !== null && !isWanted(work, desired)) this.#step.abort.abort();
    this.#wakeUp();
  }

  /** Reports the current release and the latest work. Called after each connect. */
  announce(): void {
    this.#reportApp();
    const { work, finished } = this.#state;
    const last = finished.at(-1);
    if (work !== null) this.#reportPhase(work);
    else if (last !== undefined) this.#reportFinished(last);
    this.#held.tell();
  }

  /** Wakes the worker, since the workload may have stopped or the installable kinds of releases may have changed. */
  lookAgain = (): void => this.#wakeUp();

  workload(): WorkloadStatus | undefined {
    const release = runningRelease(this.#state);
    const executor = release && this.#executor(release.kind);
    if (!release || !executor) return undefined;
    const { status: seen, restarts } = executor.status(this.app);
    const status = this.#start_failures > 0 ? "failed" : seen;
    const settled = this.#state.work === null || this.#state.work.phase === "downloading" || this.#state.work.phase === "staged";
    return {
      app: this.app,
      kind: release.kind,
      status: settled || status !== "running" ? status : "starting",
      restarts,
      release_tag: release.tag,
    };
  }

  status = (): AppStatus => appStatus(this.#state, this.#desired, this.#held.why, this.workload());

  #executor(kind: string): Executor | undefined {
    return this.#options.executors.find((executor) => executor.kind === kind);
  }

  #running(): string | null {
    for (const executor of this.#options.executors) {
      const id = executor.running(this.app);
      if (id !== null) return id;
    }
    return null;
  }

  async #run(): Promise<void> {
    let failures = 0;
    while (!this.#stopped) {
      let step: Step["type"] | "plan" = "plan";
      try {
        const planned_at = this.#options.clock.monotonic();
        const next = this.#next(planned_at);
        step = next.type;
        await this.#take(next, planned_at);
        failures = 0;
      } catch (error) {
        if (error instanceof StepAborted) continue;
        // Retry the step. It usually failed because the journal could not be written, and then it had no effect.
        failures += 1;
        this.#options.log.error({ app: this.app, step, err: error }, "a deployment step failed, trying again");
        if (step === "ensure_running") this.#startFailed();
        else await this.#sleep(this.#backoff(failures));
      }
    }
  }

  #next(now: number): Step {
    const { executors } = this.#options;
    return plan({
      state: this.#state,
      desired: this.#desired,
      // The current release's kind stays available: its workload is started as soon as its engine answers, even while new releases of that kind are
      // refused.
      kinds: executors.filter(({ kind, available }) => available !== false || kind === this.#state.current?.kind).map(({ kind }) => kind),
      running: this.#running(),
      may_start: now >= this.#start_after,
      may_converge: now >= this.#converge_after,
      may_install: this.#permission.may_install,
      server_now: this.#serverNow(),
    });
  }

  async #take(step: Step, planned_at: number): Promise<void> {
    if (step.type === "hold") return this.#hold(step);
    this.#held.over();
    if (step.type === "await_window") await this.#sleep(Math.min((step.opens_at ?? Infinity) - this.#serverNow(), WINDOW_LOOK_MS));
    else if (step.type === "idle") await this.#sleepUntilWoken(planned_at);
    else await this.#perform(step);
  }

  #serverNow = (): number => this.#options.server_time?.() ?? this.#options.clock.now().getTime();

  /** Waits until the robot allows the change, or the desired state changes. */
  async #hold(step: HeldStep): Promise<void> {
    const held = await this.#permission.ask();
    if (held === undefined) return;
    this.#held.hold(step, held);
    await this.#sleep(held.retry_ms);
  }

  #backoff(failures: number): number {
    const { retry_first_ms, retry_last_ms } = this.#options.timing;
    return exponentialMs(retry_first_ms, retry_last_ms, failures - 1);
  }

  #startFailed(): void {
    this.#start_failures += 1;
    if (this.#start_failures === 1) this.#reportApp();
    this.#start_after = this.#options.clock.monotonic() + this.#backoff(this.#start_failures);
  }

  async #perform(step: Exclude<Step, { type: "idle" }>): Promise<void> {
    const { clock, timing, log } = this.#options;
    const abort = new AbortController();
    const limit_ms =
      step.type === "stage" ? timing.stage_timeout_ms : timing.step_timeout_ms + ("work" in step ? step.work.verify_seconds * 1_000 : 0);
    const late = new StepFailure("timeout", `${step.type.replace("_", " ")} did not end within ${limit_ms / 1_000} s`);
    using limit = timeLimit(clock, limit_ms, late, abort.signal);
    this.#step = { type: step.type, abort };
    log.info({ app: this.app, step: step.type }, "deployment step");
    try {
      failpoint(`step.${step.type}:before`, "step");
      await applyStep(this.#context(limit.signal), step);
      failpoint(`step.${step.type}:after`, "step");
      if (step.type === "ensure_running") {
        this.#start_failures = 0;
        this.#reportApp();
      }
    } finally {
      this.#step = undefined;
    }
  }

  #context(signal: AbortSignal): StepContext {
    const state = (): AppState => this.#state;
    const permission = this.#permission;
    return {
      get locked() {
        return permission.locked;
      },
      get state() {
        return state();
      },
      signal,
      executors: this.#options.executors,
      admit: async (release, asked) => (await this.#options.guard?.admit(this.#state, release, { asked, signal })) ?? release,
      executor: (kind) => {
        const executor = this.#executor(kind);
        if (executor === undefined) throw new StepFailure("incompatible", `this agent has no executor for ${kind}`);
        return executor;
      },
      keep_versions: this.#options.keep_versions,
      progress: ({ target_id }, bytes_done, bytes_total) => {
        const attempt = this.#state.work?.attempt;
        if (target_id !== null && attempt !== undefined) this.#options.reporter.progress({ target_id, attempt, bytes_done, bytes_total });
      },
      enter: (work) => this.#enter(work),
      finish: (outcome) => this.#finish(outcome),
    };
  }

  #save(state: AppState): void {
    const { journal, on_step } = this.#options;
    on_step(`journal.before.${state.work?.phase ?? "finished"}`);
    journal.append(state);
    this.#state = state;
    this.#options.on_change?.();
    on_step(`journal.after.${state.work?.phase ?? "finished"}`);
  }

  /** Writes a state to the journal. If that fails, for example on a full disk, the state is kept in memory until the agent ends. */
  #keep(state: AppState, otherwise: string): void {
    try {
      this.#save(state);
    } catch (error) {
      this.#options.log.error({ app: this.app, err: error, otherwise }, "journal could not be written");
      this.#state = state;
    }
  }

  #enter(work: Work): void {
    const before = this.#state.work;
    this.#save({ ...this.#state, work });
    if (before?.phase !== work.phase || before.target_id !== work.target_id) this.#reportPhase(work);
  }

  #finish({ failure, current, previous, ...outcome }: Outcome): void {
    const { log, on_finished, on_step } = this.#options;
    const finished: Finished = { ...outcome, reason: failure?.reason ?? null, message: failure?.message ?? null, reported: false };
    const before = this.#state;
    this.#start_failures = 0;
    const state: AppState = { ...before, current, previous, work: null, finished: [...before.finished, finished].slice(-FINISHED_MAX) };
    if (outcome.status === "applied" && current !== null) state.signed = this.#options.guard?.ran(before.signed, current) ?? before.signed;
    // If the journal cannot be written, only the outcome is lost. After a restart the agent repeats the work, or refuses it again.
    this.#keep(state, "could not write the end of a deployment to the journal");
    const is_unrequested = outcome.target_id === null && outcome.status === "failed";
    this.#converge_failures = is_unrequested ? this.#converge_failures + 1 : 0;
    if (is_unrequested)
      this.#converge_after =
        this.#options.clock.monotonic() + this.#options.timing.retry_last_ms * Math.min(60, 2 ** (this.#converge_failures - 1));
    log.info(
      { app: this.app, status: finished.status, reason: finished.reason, explanation: finished.message },
      "deployment ended on this robot",
    );
    on_step("finish.before_report");
    this.#reportFinished(finished);
    if (outcome.status !== "cancelled") this.#reportApp();
    on_step("finish.after_report");
    on_finished();
  }

  #report(body: TargetReport | AppReport): boolean {
    try {
      this.#options.reporter.report(body);
      return true;
    } catch (error) {
      this.#options.log.error({ app: this.app, err: error }, "could not store a report");
      return false;
    }
  }

  #reportPhase({ target_id, deployment_id, attempt, phase, failure }: Work): void {
    if (target_id === null || deployment_id === null) return;
    this.#report({
      kind: "target",
      target_id,
      deployment_id,
      attempt,
      status: phase === "removing" ? "rolling_back" : phase,
      ...explain(failure?.reason, failure?.message),
    });
  }

  #reportFinished(finished: Finished): void {
    const { target_id, deployment_id, attempt, status, reason, message } = finished;
    const kept =
      target_id === null ||
      deployment_id === null ||
      this.#report({ kind: "target", target_id, deployment_id, attempt, status, ...explain(reason, message) });
    if (!kept || finished.reported) return;
    const list = this.#state.finished.map((one) => (one === finished ? { ...one, reported: true } : one));
    this.#keep({ ...this.#state, finished: list }, "a report may be sent twice");
  }

  #reportApp(): void {
    const { current, previous, work } = this.#state;
    const release = runningRelease(this.#state);
    if (release === null && this.#state.finished.length === 0) return;
    const under_way = release !== current || work?.phase === "rolling_back";
    const kept = under_way ? current : previous;
    this.#report({
      kind: "app",
      app: this.app,
      release_id: release?.id ?? null,
      previous_release_id: kept?.id ?? null,
      status: this.#appStatus(under_way),
    });
  }

  /** Checks the health of the running release once; undefined if none runs. */
  probe(): Promise<ProbeResult> | undefined {
    const release = runningRelease(this.#state);
    return release === null ? undefined : this.#executor(release.kind)?.probe(this.app, release);
  }

  #appStatus(under_way: boolean): AppReport["status"] {
    const release = runningRelease(this.#state);
    if (release === null) return "stopped";
    if (under_way) return "starting";
    const status = this.#executor(release.kind)?.status(this.app).status ?? "stopped";
    return this.#start_failures > 0 || status === "restarting" ? "failed" : status === "unhealthy" ? "running" : status;
  }

  #wakeUp(): void {
    this.#woken = true;
    this.#wake?.();
  }

  /** Sleeps until the worker is woken or a backoff ends. A backoff that ended since `planned_at` makes the sleep short, not endless. */
  async #sleepUntilWoken(planned_at: number): Promise<void> {
    const waits = [this.#start_after - planned_at, this.#converge_after - planned_at].filter((ms) => ms > 0);
    await this.#sleep(waits.length > 0 ? Math.min(...waits) : undefined);
  }

  async #sleep(ms: number | undefined): Promise<void> {
    if (this.#woken) {
      this.#woken = false;
      return;
    }
    await new Promise<void>((resolve) => {
      const timer = ms === undefined ? undefined : this.#options.clock.setTimer(ms, resolve);
      this.#wake = () => {
        timer?.cancel();
        resolve();
      };
    });
    this.#wake = undefined;
    this.#woken = false;
  }
}
