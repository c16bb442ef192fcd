/**
 * Processes all items in one call. If it fails, splits them in half and retries each half recursively, until the bad items are isolated. An
 * error for which `affectsAll` returns true has no bad item as its cause: all items of that call fail without a retry. Never rejects.
 */
export async function retryBisected<T>(
  items: readonly T[],
  work: (items: readonly T[]) => Promise<void>,
  { failed, affectsAll }: { failed: (items: readonly T[], error: unknown) => void; affectsAll: (error: unknown) => boolean },
): Promise<void> {
  try {
    await work(items);
  } catch (error) {
    if (items.length === 1 || affectsAll(error)) return failed(items, error);
    const half = items.length >> 1;
    await retryBisected(items.slice(0, half), work, { failed, affectsAll });
    await retryBisected(items.slice(half), work, { failed, affectsAll });
  }
}

/** After this many failures, failed calls are no longer split: all their items fail. */
const FAILURES_MAX = 20;

/** The items that `isolateFailures` could not process, and the first error. */
export interface Failures<T> {
  failed: T[];
  /** Items of `failed` that were not retried separately, because `FAILURES_MAX` was reached. Most of them may be good. */
  undivided: T[];
  error: unknown;
}

/**
 * Processes all items in one call. If it fails, retries the halves recursively, so that a bad item does not block the others. Returns
 * undefined if all items succeeded. Rejects with an error that `isOutage` accepts, because then no item is the cause.
 */
export async function isolateFailures<T>(
  items: readonly T[],
  isOutage: (error: unknown) => boolean,
  work: (items: readonly T[]) => Promise<unknown>,
): Promise<Failures<T> | undefined> {
  if (items.length === 0) return undefined;
  const errors: unknown[] = [];
  const failed: T[] = [];
  const undivided: T[] = [];
  let outage: { error: unknown } | undefined;
  const perform = async (some: readonly T[]): Promise<void> => {
    if (outage === undefined) await work(some);
    else throw outage.error;
  };
  await retryBisected(items, perform, {
    affectsAll: (error) => {
      if (isOutage(error)) outage ??= { error };
      return outage !== undefined || errors.length >= FAILURES_MAX;
    },
    failed: (some, error) => {
      if (isOutage(error)) outage ??= { error };
      errors.push(error);
      failed.push(...some);
      if (some.length > 1) undivided.push(...some);
    },
  });
  if (outage !== undefined) throw outage.error;
  return failed.length === 0 ? undefined : { failed, undivided, error: errors[0] };
}

/** Like `isolateFailures`, for work that processes one item per call. */
export async function isolateEach<T>(
  items: Iterable<T>,
  isOutage: (error: unknown) => boolean,
  work: (item: T) => Promise<unknown>,
): Promise<Failures<T> | undefined> {
  let failures: Failures<T> | undefined;
  for (const item of items) {
    try {
      await work(item);
    } catch (error) {
      if (isOutage(error)) throw error;
      failures ??= { failed: [], undivided: [], error };
      failures.failed.push(item);
    }
  }
  return failures;
}
