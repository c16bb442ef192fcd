/**
 * Does the work for all items together; where that fails, for either half apart, down to the item that is to blame and no
 * other. An error that is nobody's fault (`concernsAll`) is not looked for: the whole piece failed. Never rejects.
 */
export async function inHalves<T>(
  items: readonly T[],
  work: (items: readonly T[]) => Promise<void>,
  { failed, concernsAll }: { failed: (items: readonly T[], error: unknown) => void; concernsAll: (error: unknown) => boolean },
): Promise<void> {
  try {
    await work(items);
  } catch (error) {
    if (items.length === 1 || concernsAll(error)) return failed(items, error);
    const half = items.length >> 1;
    await inHalves(items.slice(0, half), work, { failed, concernsAll });
    await inHalves(items.slice(half), work, { failed, concernsAll });
  }
}

/** After this many failures the remaining pieces are not divided any more: each counts as failed in whole. */
const FAILURES_MAX = 20;

/** What `isolateFailures` could not process, and the first error. */
export interface Failures<T> {
  failed: T[];
  error: unknown;
}

/**
 * Does the work in one piece and, where that fails, in halves, so that an item that cannot be processed does not stop the others.
 * Returns undefined when all succeeded. Rejects with an error that `isOutage` accepts: then no item is to blame.
 */
export async function isolateFailures<T>(
  items: readonly T[],
  isOutage: (error: unknown) => boolean,
  work: (items: readonly T[]) => Promise<unknown>,
): Promise<Failures<T> | undefined> {
  if (items.length === 0) return undefined;
  const errors: unknown[] = [];
  const failed: T[] = [];
  let outage: { error: unknown } | undefined;
  const perform = async (some: readonly T[]): Promise<void> => {
    if (outage === undefined) await work(some);
    else throw outage.error;
  };
  await inHalves(items, perform, {
    concernsAll: (error) => {
      if (isOutage(error)) outage ??= { error };
      return outage !== undefined || errors.length >= FAILURES_MAX;
    },
    failed: (some, error) => {
      if (isOutage(error)) outage ??= { error };
      errors.push(error);
      failed.push(...some);
    },
  });
  if (outage !== undefined) throw outage.error;
  return failed.length === 0 ? undefined : { failed, error: errors[0] };
}

/** The same for work that is one piece for each item. */
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
      failures ??= { failed: [], error };
      failures.failed.push(item);
    }
  }
  return failures;
}
