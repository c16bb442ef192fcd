/**
 * Undoes each step, the last one first. A failure does not prevent the rest: a database would outlive its server.
 *
 * @throws what failed, after all steps; several failures as one AggregateError.
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
