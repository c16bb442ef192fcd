import { errorCode, errorText } from "../disk/write-atomically.ts";
/** Why a step failed. The API returns these values. */
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

/** A step cannot succeed, so the deployment ends with this reason. */
export class StepFailure extends Error {
  readonly reason: FailureReason;

  constructor(reason: FailureReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** A step was aborted, because of a newer desired state or because the agent stops. It has no outcome. */
export class StepAborted extends Error {
  constructor() {
    super("cancelled");
  }
}

/** Throws if the signal is aborted: after a timeout the StepFailure in the signal's reason, otherwise StepAborted. */
export function throwIfAborted(signal: AbortSignal): void {
  if (!signal.aborted) return;
  throw signal.reason instanceof StepFailure ? signal.reason : new StepAborted();
}

/** Returns the result of `work`. If the signal is aborted first, throws its reason and no longer waits for `work`. */
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
 * Converts an exception to a StepFailure with the reason `otherwise`. For a full disk it uses a separate reason, since that is a problem
 * of the robot, not of the release.
 */
export function failureOf(error: unknown, otherwise: FailureReason): StepFailure {
  if (error instanceof StepFailure) return error;
  const code = errorCode(error);
  if (code === "ENOSPC" || code === "EDQUOT") return new StepFailure("insufficient_disk", "the robot's disk is full", { cause: error });
  return new StepFailure(otherwise, errorText(error), { cause: error });
}
