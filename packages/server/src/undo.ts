/**
 * Ends what was started, the last first, each to its end. One that fails keeps none of the others running: a database would
 * outlive its server.
 *
 * @throws what failed, once everything was tried; several failures as one AggregateError.
 */
export async function undoAll(started: readonly (() => Promise<unknown>)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const undo of started.toReversed()) {
    try {
      await undo();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 1) throw new AggregateError(failures, "several parts of the server did not stop in order");
  if (failures.length === 1) throw failures[0];
}
