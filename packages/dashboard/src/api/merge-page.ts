export interface RowPage<Row> {
  items: readonly Row[];
  next_cursor: string | null;
}

/**
 * Pages of a list after one of them was read again from where it began before. Rows that new ones pushed off its end stay: the
 * page after it begins where it always did. What it ran into of the page after it shows once, as it is now. Undefined when
 * nothing of what was there is in the answer: so much is new that rows in between may be missing.
 */
export function mergePage<Row, Page extends RowPage<Row>>(
  pages: readonly Page[],
  at: number,
  fresh: Page,
  keyOf: (row: Row) => string,
): Page[] | undefined {
  const old = pages[at];
  if (old === undefined) return undefined;
  if (fresh.next_cursor === null) return [...pages.slice(0, at), fresh];
  const keys = new Set(fresh.items.map(keyOf));
  const last_common = old.items.findLastIndex((row) => keys.has(keyOf(row)));
  const last = fresh.items.at(-1);
  const reaches_next = last !== undefined && (pages[at + 1]?.items ?? []).some((row) => keyOf(row) === keyOf(last));
  if (last_common === -1 && !reaches_next && old.items.length > 0) return undefined;
  const rest = reaches_next ? [] : old.items.slice(last_common + 1);
  // At the end of what was loaded a page whose last rows went away ends further on than it did.
  const is_moved_on = rest.length === 0 && at === pages.length - 1;
  const merged = { ...fresh, items: [...fresh.items, ...rest], next_cursor: is_moved_on ? fresh.next_cursor : old.next_cursor };
  return pages.map((page, index) => (index === at ? merged : page));
}

/** Rows of all pages, each once: a row that moved may be in two until both were read again. */
export function uniqueRows<Row>(pages: readonly RowPage<Row>[], keyOf: (row: Row) => string): Row[] {
  return collector(keyOf)(pages);
}

/**
 * The same, again and again: a page that came behind those that were there is all that is looked at, however many they are.
 */
export function collector<Row>(keyOf: (row: Row) => string): (pages: readonly RowPage<Row>[]) => Row[] {
  let known: readonly RowPage<Row>[] = [];
  let seen = new Set<string>();
  let rows: Row[] = [];
  return (pages) => {
    const is_longer = known.length <= pages.length && known.every((page, index) => page === pages[index]);
    if (!is_longer) seen = new Set();
    const next = is_longer ? rows.slice() : [];
    for (const { items } of pages.slice(is_longer ? known.length : 0))
      for (const row of items) {
        const key = keyOf(row);
        if (seen.has(key)) continue;
        seen.add(key);
        next.push(row);
      }
    known = pages;
    rows = next;
    return rows;
  };
}

/** Numbers of the pages that hold rows `first` to `last`. */
export function pagesOf(pages: readonly RowPage<unknown>[], first: number, last: number): number[] {
  const found: number[] = [];
  let start = 0;
  pages.forEach(({ items }, index) => {
    const end = start + items.length;
    if ((items.length > 0 && start <= last && end > first) || (index === 0 && first === 0)) found.push(index);
    start = end;
  });
  return found;
}
