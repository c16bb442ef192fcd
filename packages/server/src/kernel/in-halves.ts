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
