/** Why a step ended; the words are those of the API. */
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

/** A step that cannot succeed: ends the deployment with this reason. Anything else that is thrown is tried again. */
export class StepFailure extends Error {
  readonly reason: FailureReason;

  constructor(reason: FailureReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** The step was called off (a newer desired state, or the agent stops): it has no outcome. */
export class StepAborted extends Error {
  constructor() {
    super("called off");
  }
}

/** A step that ran out of time is aborted with the StepFailure that says so; any other abort calls it off. */
export function throwIfAborted(signal: AbortSignal): void {
  if (!signal.aborted) return;
  throw signal.reason instanceof StepFailure ? signal.reason : new StepAborted();
}

/** Answers what `work` does, or throws the signal's reason when that comes first, whatever becomes of the work. */
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

export function errorCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

export const errorMessage = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A disk that is full is the robot's trouble, not the release's: it has its own reason. */
export function failureOf(error: unknown, otherwise: FailureReason): StepFailure {
  if (error instanceof StepFailure) return error;
  const code = errorCode(error);
  if (code === "ENOSPC" || code === "EDQUOT") return new StepFailure("insufficient_disk", "the robot's disk is full", { cause: error });
  return new StepFailure(otherwise, errorMessage(error), { cause: error });
}
