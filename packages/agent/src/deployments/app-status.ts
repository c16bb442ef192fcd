import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { AppStatus, Clock, Logger, ReleaseName, Reporter, WorkloadStatus } from "../contract.ts";
import type { AppState, DesiredAppState } from "./state.ts";
import type { Held } from "../safety/permission.ts";

const nameOf = (release: DesiredRelease | null): ReleaseName | null =>
  release === null ? null : { id: release.id, tag: release.tag, kind: release.kind };

/** Returns the status of an app for the robot's own software. Pure. */
export function appStatus(
  state: AppState,
  desired: DesiredAppState,
  held: AppStatus["held"],
  workload: WorkloadStatus | undefined,
): AppStatus {
  return {
    app: state.app,
    current: nameOf(state.current),
    desired: typeof desired === "string" ? null : nameOf(desired.release),
    phase: state.work?.phase ?? null,
    held,
    workload: workload === undefined ? null : { status: workload.status, restarts: workload.restarts },
  };
}

/**
 * Returns whether the running release is being changed. Such a change can no longer be cancelled: the robot finishes it or rolls it back.
 */
export const isChanging = ({ phase }: Pick<AppStatus, "phase">): boolean =>
  phase === "installing" || phase === "verifying" || phase === "rolling_back" || phase === "removing";

/** Interval at which a held-back update is reported again, so that the server does not let it time out. */
const HELD_REPORT_MS = 60_000;

export interface HeldStep {
  release: DesiredRelease | null;
  target_id: string | null;
  attempt: number;
}

interface HeldUpdateOptions {
  app: string;
  clock: Clock;
  log: Logger;
  reporter: Reporter;
  /** Called when an update begins to be held back, when it is no longer held back, and when the reason changes. */
  on_change: () => void;
}

/** Tracks whether the robot is holding back an app's update, and reports it to the server. */
export class HeldUpdate {
  readonly #options: HeldUpdateOptions;
  #now: (Held & { step: HeldStep; reported_at: number }) | undefined;

  constructor(options: HeldUpdateOptions) {
    this.#options = options;
  }

  /** Returns why the update is held back; null if it is not. */
  get why(): { by: Held["by"]; why: string } | null {
    return this.#now === undefined ? null : { by: this.#now.by, why: this.#now.why };
  }

  /** Reports a new reason immediately, and an unchanged one each minute. */
  hold(step: HeldStep, held: Held): void {
    const { app, clock, log, on_change } = this.#options;
    const before = this.#now;
    const is_new =
      before === undefined || before.by !== held.by || before.step.target_id !== step.target_id || before.step.attempt !== step.attempt;
    const due = is_new || clock.monotonic() - before.reported_at >= HELD_REPORT_MS;
    this.#now = { ...held, step, reported_at: due ? clock.monotonic() : before.reported_at };
    if (!due) return;
    log.info({ app, held_by: held.by, why: held.why }, "the robot postpones the update");
    this.tell();
    on_change();
  }

  /** Reports to the server that the update is held back. Also called after each connect. */
  tell(): void {
    if (this.#now === undefined) return;
    const { target_id, attempt, release } = this.#now.step;
    if (target_id === null) return;
    const bytes = release?.artifact_size ?? 0;
    this.#options.reporter.progress({ target_id, attempt, bytes_done: bytes, bytes_total: bytes, waiting_for: "robot" });
  }

  /** Called when the update is no longer held back: the worker has continued with another step. */
  over(): void {
    if (this.#now === undefined) return;
    this.#now = undefined;
    this.#options.on_change();
  }
}
