import type { DesiredApp, DesiredRelease } from "@roamfleet/protocol/link";
import type { Executor } from "../runtime/executor.ts";
import { failureOf, StepAborted } from "../runtime/failure.ts";
import type { Step, StepType } from "./plan.ts";
import type { AppState, Failure, FinalStatus, Phase, Work } from "./state.ts";
import { errorText } from "../disk/write-atomically.ts";

/** The state and the functions of an app's worker that are passed to the function of a step. */
export interface StepContext {
  readonly state: AppState;
  readonly signal: AbortSignal;
  readonly locked: boolean;
  executor: (kind: string) => Executor;
  /** All executors, in the order in which they remove an app. Those that delete the app's whole directory come last. */
  readonly executors: readonly Executor[];
  /**
   * Checks the release's signature and returns the release in the form that may be installed: see `Guard.admit`. Throws StepFailure
   * (`signature_invalid`) or StepAborted.
   */
  admit: (release: DesiredRelease, asked: "now" | "lately") => Promise<DesiredRelease>;
  keep_versions: (release_ids: string[]) => void;
  progress: (work: Work, bytes_done: number, bytes_total: number) => void;
  /** Writes the work to the journal, then reports its phase if the phase is new. A step must call this before its first side effect. */
  enter: (work: Work) => void;
  /** Writes the outcome, and the release that runs from now on, to the journal; then reports both. */
  finish: (outcome: Outcome) => void;
}

export interface Outcome {
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
  release_id: string | null;
  status: FinalStatus;
  failure: Failure | null;
  current: DesiredRelease | null;
  previous: DesiredRelease | null;
}

type Of<T extends StepType> = Extract<Step, { type: T }>;

/**
 * Maps each type of step to its function; the compiler reports a missing type. If a function throws StepAborted, the step has no outcome.
 */
export const apply: { [T in StepType]: (context: StepContext, step: Of<T>) => Promise<void> } = {
  idle: async () => {},
  hold: async () => {},
  await_window: async () => {},
  ensure_running: (context, { release }) => ensureRunning(context, release),
  refuse: async (context, { desired, failure }) => end(context, ofDesired(desired), "failed", failure),
  confirm: async (context, { desired, release }) => {
    const refusal = await refusalOf(context, release, "now");
    if (refusal !== undefined) return end(context, ofDesired(desired), "failed", refusal);
    const { ok } = await context.executor(release.kind).probe(context.state.app, release);
    if (!ok) begin(context, desired, "downloading");
    else
      end(context, ofDesired(desired), "applied", {
        reason: "already_installed",
        message: `release ${release.tag} runs already and is healthy`,
      });
  },
  begin: async (context, { desired, phase }) => begin(context, desired, phase),
  cancel: async (context, { work }) => {
    end(context, work, "cancelled", null);
    prune(context);
  },
  give_up: async (context, { work, failure }) => {
    end(context, work, "failed", failure);
    prune(context);
  },
  stage: (context, { work, release }) => stage(context, work, release),
  install: (context, { work, release }) => install(context, work, release),
  verify: (context, { work, release }) => verify(context, work, release),
  roll_back: (context, { work, release, failure }) => rollBack(context, work, release, failure),
  remove: (context, { work }) => remove(context, work),
};

export function applyStep<T extends StepType>(context: StepContext, step: Of<T>): Promise<void> {
  return apply[step.type](context, step);
}

interface Asked {
  target_id: string | null;
  deployment_id: string | null;
  attempt: number;
  release: DesiredRelease | null;
}

const ofDesired = ({ target_id, deployment_id, attempt, release }: DesiredApp): Asked => ({ target_id, deployment_id, attempt, release });

/** Ends the work with a final status. The running release stays the same, unless `runs` names another one. */
function end(
  context: StepContext,
  asked: Asked,
  status: FinalStatus,
  failure: Failure | null,
  runs: Pick<AppState, "current" | "previous"> = context.state,
): void {
  const { target_id, deployment_id, attempt, release } = asked;
  context.finish({
    target_id,
    deployment_id,
    attempt,
    release_id: release?.id ?? null,
    status,
    failure,
    current: runs.current,
    previous: runs.previous,
  });
}

function prune({ state, keep_versions }: StepContext): void {
  keep_versions([state.current, state.previous].flatMap((release) => (release === null ? [] : [release.id])));
}

function begin({ enter }: StepContext, desired: DesiredApp, phase: Phase): void {
  enter({ ...ofDesired(desired), verify_seconds: desired.policy.verify_seconds, phase, tries: 0, failure: null });
}

/**
 * Runs `work`, and calls `on_failure` if it fails. Rethrows StepAborted: a step that was aborted, because it was cancelled or the agent
 * stops, has no outcome.
 */
async function trying(work: () => Promise<void>, on_failure: (failure: Failure) => void): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof StepAborted) throw error;
    const { reason, message } = failureOf(error, "rejected_by_robot");
    on_failure({ reason, message });
  }
}

/** Returns why the release's signature forbids its installation; undefined if the release may be installed. */
async function refusalOf(context: StepContext, release: DesiredRelease, asked: "now" | "lately"): Promise<Failure | undefined> {
  let refusal: Failure | undefined;
  await trying(
    async () => void (await context.admit(release, asked)),
    (failure) => (refusal = failure),
  );
  return refusal;
}

async function ensureRunning({ state, executor, signal }: StepContext, release: DesiredRelease): Promise<void> {
  if (signal.aborted) throw new StepAborted();
  await executor(release.kind).repair?.(state.app, release, signal);
  await executor(release.kind).start(state.app, release, { fresh: false, signal });
  executor(release.kind).settle?.(state.app);
}

async function stage(context: StepContext, before: Work, release: DesiredRelease): Promise<void> {
  const { app } = context.state;
  // Delete existing files of this release id first. The server assigns the ids, so the files may belong to another release.
  if (before.tries === 0) prune(context);
  const work = { ...before, tries: before.tries + 1 };
  context.enter(work);
  const io = { signal: context.signal, progress: (done: number, total: number) => context.progress(work, done, total) };
  let failure: Failure | undefined;
  let admitted = release;
  await trying(
    async () => {
      admitted = await context.admit(release, "now");
      await context.executor(release.kind).stage(app, admitted, io);
    },
    (why) => (failure = why),
  );
  // The server may have increased the attempt meanwhile: journal the newest one.
  const now = { ...work, release: admitted, attempt: context.state.work?.attempt ?? work.attempt };
  if (failure === undefined) return context.enter({ ...now, phase: "staged", tries: 0 });
  prune(context);
  end(context, now, "failed", failure);
}

async function install(context: StepContext, before: Work, release: DesiredRelease): Promise<void> {
  const { state, executor } = context;
  // Check the signature again: the update may have been held back so long that the signature has expired or the key was revoked.
  const refusal = before.phase === "staged" ? await refusalOf(context, release, "lately") : undefined;
  if (refusal !== undefined) {
    end(context, newest(context, before), "failed", refusal);
    return prune(context);
  }
  // The update lock may have been taken during the signature check. After this line, the lock no longer stops the installation.
  if (before.phase === "staged" && context.locked) throw new StepAborted();
  const tries = before.phase === "installing" ? before.tries + 1 : 1;
  context.enter({ ...before, phase: "installing", tries });
  await trying(
    async () => {
      // The kind of an app may change: the old release must not keep running under its former executor.
      if (state.current !== null && state.current.kind !== release.kind) await executor(state.current.kind).stop(state.app);
      await executor(release.kind).start(state.app, release, { fresh: true, signal: context.signal });
      context.enter({ ...newest(context, before), phase: "verifying", tries: 0 });
    },
    (failure) => context.enter({ ...newest(context, before), phase: "rolling_back", tries: 0, failure }),
  );
}

/** Returns the work as last journaled: its attempt may have increased while a step ran. */
const newest = (context: StepContext, work: Work): Work => context.state.work ?? work;

async function verify(context: StepContext, before: Work, release: DesiredRelease): Promise<void> {
  const { state, executor, signal } = context;
  context.enter({ ...before, tries: before.tries + 1 });
  let failure: Failure | undefined;
  await trying(
    async () => {
      // After a restart of the agent the release does not run yet, so start it. Verification then begins again.
      await executor(release.kind).start(state.app, release, { fresh: false, signal: context.signal });
      const verdict = await executor(release.kind).verify(state.app, release, before.verify_seconds, signal);
      if (!verdict.healthy) failure = { reason: verdict.reason, message: verdict.message };
    },
    (why) => (failure = why),
  );
  const work = newest(context, before);
  if (failure !== undefined) return context.enter({ ...work, phase: "rolling_back", tries: 0, failure });
  const { current, previous } = context.state;
  end(context, work, "applied", null, { current: release, previous: current?.id === release.id ? previous : current });
  executor(release.kind).settle?.(state.app);
  prune(context);
}

/**
 * By release kind: the name of what runs again after an app's first release was rolled back or removed. Contains the kinds whose releases
 * replace something that no release installed.
 */
const EARLIER: Readonly<Record<string, string>> = { os_image: "the earlier system", agent: "the earlier agent" };

async function rollBack(context: StepContext, before: Work, release: DesiredRelease, failure: Failure): Promise<void> {
  const { state, executor } = context;
  const tries = before.phase === "rolling_back" ? before.tries + 1 : 1;
  context.enter({ ...before, phase: "rolling_back", tries, failure });
  const restores = executor(release.kind).restore !== undefined;
  if (state.current === null && !restores) {
    await removeAll(context);
    const message = `${failure.message}; the release was stopped and removed, because there is no earlier release to roll back to`;
    return end(context, newest(context, before), "failed", { reason: failure.reason, message }, { current: null, previous: null });
  }
  const old = state.current;
  const problem = await bringBack(context, old, release);
  const name = old === null ? (EARLIER[release.kind] ?? "the earlier version") : `release ${old.tag}`;
  const work = newest(context, before);
  if (problem === undefined)
    end(context, work, "rolled_back", { reason: failure.reason, message: `${failure.message}; ${name} runs again` });
  else
    end(context, work, "failed", {
      reason: "rollback_failed",
      message: `${failure.message}; ${name} could not be started again: ${problem}`,
    });
  if (old !== null) executor(old.kind).settle?.(state.app);
  prune(context);
}

/**
 * Starts the old release again; without one, restores what ran before the first release. Returns why that failed; undefined if it runs. The
 * executor supervises it in both cases.
 */
async function bringBack(
  { state, executor, signal }: StepContext,
  old: DesiredRelease | null,
  bad: DesiredRelease,
): Promise<string | undefined> {
  try {
    const restored = await executor(bad.kind).restore?.(state.app, bad, signal);
    if (restored?.ok === false) return restored.message;
    if (old === null || (restored !== undefined && old.kind === bad.kind)) return undefined;
    if (bad.kind !== old.kind) await executor(bad.kind).stop(state.app);
    await executor(old.kind).start(state.app, old, { fresh: true, signal });
    const { ok, message } = await executor(old.kind).alive(state.app, signal);
    return ok ? undefined : message;
  } catch (error) {
    if (error instanceof StepAborted) throw error;
    return errorText(error);
  }
}

async function removeAll({ state, executors, signal }: StepContext): Promise<void> {
  for (const executor of executors) await executor.remove(state.app, signal);
}

async function remove(context: StepContext, before: Work): Promise<void> {
  context.enter({ ...before, tries: before.tries + 1 });
  const { current } = context.state;
  await removeAll(context);
  const work = newest(context, before);
  const message = current !== null && current.kind in EARLIER ? `${EARLIER[current.kind]} runs again` : "stopped and removed";
  end(context, work, "rolled_back", { reason: "rollback_requested", message }, { current: null, previous: null });
}
