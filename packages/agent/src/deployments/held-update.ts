import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { Clock, Logger, Reporter } from "../contract.ts";
import type { Held } from "../safety/permission.ts";

/** An update that the robot holds back is told again this often, lest the server gives it up. */
export const HELD_TELL_MS = 60_000;

export interface HeldStep {
  release: DesiredRelease | null;
  target_id: string | null;
  attempt: number;
}

export interface HeldUpdateOptions {
  app: string;
  clock: Clock;
  log: Logger;
  reporter: Reporter;
  /** It is held, held for another reason, or held no longer. */
  on_change: () => void;
}

/** What is said about an app's update that the robot holds back. */
export class HeldUpdate {
  readonly #options: HeldUpdateOptions;
  #now: (Held & { step: HeldStep; told_at: number }) | undefined;

  constructor(options: HeldUpdateOptions) {
    this.#options = options;
  }

  /** Why nothing goes on; null: nothing is held. */
  get why(): { by: Held["by"]; why: string } | null {
    return this.#now === undefined ? null : { by: this.#now.by, why: this.#now.why };
  }

  /** Tells at once what is new, and what stays each minute. */
  hold(step: HeldStep, held: Held): void {
    const { app, clock, log, on_change } = this.#options;
    const before = this.#now;
    const is_new =
      before === undefined || before.by !== held.by || before.step.target_id !== step.target_id || before.step.attempt !== step.attempt;
    const due = is_new || clock.monotonic() - before.told_at >= HELD_TELL_MS;
    this.#now = { ...held, step, told_at: due ? clock.monotonic() : before.told_at };
    if (!due) return;
    log.info({ app, held_by: held.by, why: held.why }, "the robot holds the update back");
    this.tell();
    on_change();
  }

  /** Says again that it is held: after each connect. */
  tell(): void {
    if (this.#now === undefined) return;
    const { target_id, attempt, release } = this.#now.step;
    if (target_id === null) return;
    const bytes = release?.artifact_size ?? 0;
    this.#options.reporter.progress({ target_id, attempt, bytes_done: bytes, bytes_total: bytes, waiting_for: "robot" });
  }

  /** Something else goes on. */
  over(): void {
    if (this.#now === undefined) return;
    this.#now = undefined;
    this.#options.on_change();
  }
}
