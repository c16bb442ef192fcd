import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { SignedHistory } from "./history.ts";

/** The app data that a guard needs. */
export interface GuardedApp {
  app: string;
  current: DesiredRelease | null;
  previous: DesiredRelease | null;
  signed?: SignedHistory | undefined;
}

/** Checks by its signature whether a release may be installed. */
export interface Guard {
  /** True while this robot refuses unsigned releases. */
  readonly requires_signature: boolean;
  /**
   * Returns the release in the form that may be installed. If signatures are used, it first queries newer keys, unless `asked` is "lately" and it did
   * so recently. Throws StepFailure (`signature_invalid`) with the failed check in its message, or StepAborted.
   */
  admit(app: GuardedApp, release: DesiredRelease, options: { asked: "now" | "lately"; signal: AbortSignal }): Promise<DesiredRelease>;
  /** Returns the history of an app after this admitted release ran. */
  ran(history: SignedHistory | undefined, release: DesiredRelease): SignedHistory | undefined;
}
