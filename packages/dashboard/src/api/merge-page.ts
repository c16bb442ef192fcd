export interface RowPage<Row> {
  items: readonly Row[];
  next_cursor: string | null;
}

/**
 * Merges a refetched page into the pages of a list. Rows that new rows pushed off the end of the page stay in it, because the next page
 * still starts at the old cursor. Rows that are also in the next page are shown once, in their new version. If the response contains no
 * known row, rows between this page and the next one may be missing: the list then ends with this page and loads the next pages again.
 */
export function mergePage<Row, Page extends RowPage<Row>>(
  pages: readonly Page[],
  at: number,
  fresh: Page,
  keyOf: (row: Row) => string,
): Page[] {
  const old = pages[at]!;
  const keys = new Set(fresh.items.map(keyOf));
  const last_common = old.items.findLastIndex((row) => keys.has(keyOf(row)));
  const last = fresh.items.at(-1);
  const reaches_next = last !== undefined && (pages[at + 1]?.items ?? []).some((row) => keyOf(row) === keyOf(last));
  const is_apart = last_common === -1 && !reaches_next && old.items.length > 0;
  if (fresh.next_cursor === null || is_apart) return [...pages.slice(0, at), fresh];
  const rest = reaches_next ? [] : old.items.slice(last_common + 1);
  // If only refetched rows are left in the last page, the list continues at the new cursor, otherwise at the old one.
  const is_moved_on = rest.length === 0 && at === pages.length - 1;
  const merged = { ...fresh, items: [...fresh.items, ...rest], next_cursor: is_moved_on ? fresh.next_cursor : old.next_cursor };
  return pages.map((page, index) => (index === at ? merged : page));
}

/** Returns the rows of all pages without duplicates: a moved row may be in two pages until both are refetched. */
export function uniqueRows<Row>(pages: readonly RowPage<Row>[], keyOf: (row: Row) => string): Row[] {
  return collector(keyOf)(pages);
}

/**
 * Returns an incremental version of `uniqueRows`: it processes only appended pages, however many there are.
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

/** Returns the indexes of the pages that contain rows `first` to `last`. */
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
