import { isConnectionLost } from "../../engines/db/index.ts";

/**
 * Does the work for each, also when it fails for one before: what is wrong with one deployment holds up no other.
 * Throws the first failure in the end, a lost database at once.
 */
export async function eachApart<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  let failure: { error: unknown } | undefined;
  for (const item of items) {
    try {
      await work(item);
    } catch (error) {
      if (isConnectionLost(error)) throw error;
      failure ??= { error };
    }
  }
  if (failure !== undefined) throw failure.error;
}
