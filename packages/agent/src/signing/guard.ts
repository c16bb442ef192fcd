import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { SignedHistory } from "./history.ts";

/** What of an app a guard must know. */
export interface GuardedApp {
  app: string;
  current: DesiredRelease | null;
  previous: DesiredRelease | null;
  signed?: SignedHistory | undefined;
}

/** Decides by its signature whether a release may be installed. */
export interface Guard {
  /** True while this robot refuses unsigned releases. */
  readonly requires_signature: boolean;
  /**
   * Answers the release as it may be installed; asks for newer keys first where signatures play a part, unless it did lately and that
   * will do. Throws StepFailure (`signature_invalid`) with the check that refused it in its message, or StepAborted.
   */
  admit(app: GuardedApp, release: DesiredRelease, options: { asked: "now" | "lately"; signal: AbortSignal }): Promise<DesiredRelease>;
  /** The history of an app after this release ran, which was admitted before. */
  ran(history: SignedHistory | undefined, release: DesiredRelease): SignedHistory | undefined;
}
