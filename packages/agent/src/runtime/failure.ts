import { errorCode, errorText } from "../disk/write-atomically.ts";
/** Why a step failed; values of the API. */
export type FailureReason =
  | "timeout"
  | "health_check_failed"
  | "crash_loop"
  | "download_failed"
  | "digest_mismatch"
  | "signature_invalid"
  | "incompatible"
  | "insufficient_disk"
  | "rejected_by_robot"
  | "rollback_failed";

/** The step cannot succeed: the deployment ends with this reason. */
export class StepFailure extends Error {
  readonly reason: FailureReason;

  constructor(reason: FailureReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** The step was aborted (a newer desired state, or the agent stops): it has no outcome. */
export class StepAborted extends Error {
  constructor() {
    super("cancelled");
  }
}

/** Throws if the signal is aborted: the StepFailure of a timeout, or StepAborted for any other abort. */
export function throwIfAborted(signal: AbortSignal): void {
  if (!signal.aborted) return;
  throw signal.reason instanceof StepFailure ? signal.reason : new StepAborted();
}

/** Returns the result of `work`, or throws the signal's reason if that comes first; `work` is then abandoned. */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const heard = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    const end = (): void => reject(signal.reason instanceof Error ? signal.reason : new StepAborted());
    if (signal.aborted) end();
    signal.addEventListener("abort", end, { once: true, signal: heard.signal });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    heard.abort();
  }
}

/**
 * Converts an exception to a StepFailure with the reason `otherwise`. A full disk has its own reason: it is the robot's problem, not the
 * release's.
 */
export function failureOf(error: unknown, otherwise: FailureReason): StepFailure {
  if (error instanceof StepFailure) return error;
  const code = errorCode(error);
  if (code === "ENOSPC" || code === "EDQUOT") return new StepFailure("insufficient_disk", "the robot's disk is full", { cause: error });
  return new StepFailure(otherwise, errorText(error), { cause: error });
}
