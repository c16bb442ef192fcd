import type { UseInfiniteQueryResult } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowUp, ArrowUpDown } from "lucide-react";
import { type KeyboardEvent, memo, type ReactNode, useCallback, useEffect, useLayoutEffect, useRef } from "react";
import { Checkbox } from "./field.tsx";
import { QueryState } from "./query-state.tsx";
import { cx } from "./text.tsx";

const ROW_PX = 40;
const DENSE_ROW_PX = 30;
const OVERSCAN_ROWS = 6;
/** The next page is fetched when at most this many loaded rows are left below the visible ones. */
const AHEAD_ROWS = 40;

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ReactNode;
  /** Plain text that replaces the cell during fast scrolling. Default: the cell is then empty. */
  text?: (row: Row) => string;
  /** A CSS grid track, such as `minmax(8rem, 2fr)`. */
  width: string;
  /** Screens that show the column: 1 is every screen, 2 is from 640 px, 3 is from 1024 px of width (default 1). */
  priority?: 1 | 2 | 3;
  align?: "right";
  /** The value of `sort` by which the API sorts the rows by this column, in ascending order. */
  sort?: string;
}

interface DataTableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  /** Returns a unique key of a row. Default: the row's ID. */
  rowKey?: (row: Row) => string;
  /** Called on Enter or a click on the row. Links inside cells keep working. */
  onOpen?: (row: Row) => void;
  /** Keys of the selected rows. If set, each row has a checkbox. */
  selected?: ReadonlySet<string>;
  onSelect?: (keys: ReadonlySet<string>) => void;
  /** Called when the user scrolls near the end of the loaded rows. It should fetch the next page. */
  onEnd?: () => void;
  /** Called with the indexes of the first and last visible row when they change. */
  onRange?: (first: number, last: number) => void;
  /** Whether more rows exist than were loaded. */
  has_more?: boolean;
  /** Shown if there are no rows. */
  empty?: ReactNode;
  /** Whether rows are lower than usual, so that more of them fit. */
  is_dense?: boolean;
  /** The current order: the `sort` of a column, or undefined for the default order. */
  sort?: string | undefined;
  /** Called with the new order. If set, the header of a column with `sort` is a button. */
  onSort?: (sort: string | undefined) => void;
  /** CSS height up to which the table grows with its rows (default 70% of the window). */
  height?: string;
}

const idOf = (row: unknown): string => (row as { id: string }).id;

const HIDDEN: Record<1 | 2 | 3, string> = { 1: "", 2: "max-sm:hidden", 3: "max-lg:hidden" };

/**
 * A virtualized table: only visible rows are in the DOM, so that 100,000 rows scroll like ten. Arrow keys and j, k move the focus,
 * Enter opens a row, x selects it.
 */
export function DataTable<Row>(props: DataTableProps<Row>) {
  const { rows, rowKey = idOf, onEnd, onRange, has_more = false, is_dense = false } = props;
  const row_px = is_dense ? DENSE_ROW_PX : ROW_PX;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => row_px,
    overscan: OVERSCAN_ROWS,
    // Memoized, because the virtualizer measures all rows again when this function changes.
    getItemKey: useCallback((index: number) => rowKey(rows[index]!), [rows, rowKey]),
  });
  // Without this call, the virtualizer keeps the previous sizes of rows.
  useLayoutEffect(() => virtual.measure(), [virtual, row_px]);
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  const is_flying = useFlight(virtual.isScrolling, first, items.length);
  useEffect(() => onRange?.(first, last), [onRange, first, last]);
  useEffect(() => {
    if (has_more && rows.length - last <= AHEAD_ROWS) onEnd?.();
  }, [has_more, last, rows.length, onEnd]);
  if (rows.length === 0 && props.empty !== undefined) return props.empty;
  const { columns, selected, onSelect, onOpen } = props;
  const shared = { columns, selected, onSelect, onOpen, rowKey, is_flying, row_px };
  return (
    <div
      ref={scroller}
      role="grid"
      aria-label={props.label}
      aria-rowcount={has_more ? -1 : rows.length + 1}
      tabIndex={0}
      onKeyDown={(event) => moveByKey(event, scroller.current)}
      data-dense={is_dense || undefined}
      className="min-w-0 overflow-x-hidden overflow-y-auto rounded-lg border border-line"
      style={{ ...tracks(props), maxHeight: props.height ?? "70dvh" }}
    >
      <Head {...props} />
      <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
        {items.map(({ index, key, start }) => (
          <Row key={key} {...shared} row={rows[index]!} index={index} start={start} />
        ))}
      </div>
      {has_more && <p className="p-2 text-center text-xs text-muted">Loading more…</p>}
    </div>
  );
}

/**
 * Returns whether rows scroll too fast to read: from a jump by more than one screen until scrolling ends. Such rows are rendered as
 * plain text, because full cells would block the main thread for too long in each frame.
 */
function useFlight(is_scrolling: boolean, first: number, count: number): boolean {
  const flight = useRef({ is_on: false, first });
  const is_jump = Math.abs(first - flight.current.first) > count;
  flight.current = { is_on: is_scrolling && (flight.current.is_on || is_jump), first };
  return flight.current.is_on;
}

/** Right-aligned numbers, with padding before the next column. */
const RIGHT = "text-right not-last:pr-3";

/** Grid tracks for each screen width as CSS variables: class names cannot contain computed values. */
function tracks<Row>({ columns, selected }: DataTableProps<Row>): Record<string, string> {
  const of = (most: number): string =>
    [
      ...(selected === undefined ? [] : ["2.25rem"]),
      ...columns.filter(({ priority = 1 }) => priority <= most).map(({ width }) => width),
    ].join(" ");
  return { "--tracks-1": of(1), "--tracks-2": of(2), "--tracks-3": of(3) };
}
const GRID =
  "grid items-center gap-3 px-3 [grid-template-columns:var(--tracks-1)] sm:[grid-template-columns:var(--tracks-2)] lg:[grid-template-columns:var(--tracks-3)]";

function Head<Row>(props: DataTableProps<Row>) {
  const { columns, rows, selected, onSelect, rowKey = idOf, sort, onSort } = props;
  const is_all = selected !== undefined && rows.length > 0 && rows.every((row) => selected.has(rowKey(row)));
  return (
    <div role="rowgroup" className="sticky top-0 z-10 border-b border-line bg-sunken">
      <div role="row" className={cx(GRID, "h-9 text-xs font-medium text-muted")}>
        {selected !== undefined && (
          <div role="columnheader">
            <Checkbox
              label={`Select all ${rows.length.toLocaleString()} loaded rows`}
              hidden_label
              checked={is_all}
              onChange={(on) => onSelect?.(new Set(on ? rows.map(rowKey) : []))}
            />
          </div>
        )}
        {columns.map(({ name, align, priority = 1, sort: by }) => {
          const can_sort = by !== undefined && onSort !== undefined;
          const is_sorted = by !== undefined && by === sort;
          return (
            <div
              key={name}
              role="columnheader"
              aria-sort={can_sort ? (is_sorted ? "ascending" : "none") : undefined}
              className={cx("truncate", HIDDEN[priority], align === "right" && RIGHT)}
            >
              {can_sort ? (
                <SortButton name={name} is_sorted={is_sorted} onClick={() => onSort(is_sorted ? undefined : by)} />
              ) : name === "" ? (
                <span className="sr-only">Actions</span>
              ) : (
                name
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

const SortButton = ({ name, is_sorted, onClick }: { name: string; is_sorted: boolean; onClick: () => void }) => (
  <button
    type="button"
    onClick={onClick}
    title={is_sorted ? "Restore the default order" : `Sort by ${name.toLowerCase()}`}
    className={cx("inline-flex h-7 items-center gap-1 rounded hover:text-ink", is_sorted && "text-ink")}
  >
    {name}
    {is_sorted ? <ArrowUp size={12} aria-hidden /> : <ArrowUpDown size={12} aria-hidden />}
  </button>
);

interface TableRowProps<Row> {
  columns: readonly Column<Row>[];
  selected: ReadonlySet<string> | undefined;
  onSelect: ((keys: ReadonlySet<string>) => void) | undefined;
  onOpen: ((row: Row) => void) | undefined;
  rowKey: (row: Row) => string;
  row: Row;
  index: number;
  start: number;
  is_flying: boolean;
  row_px: number;
}

function TableRow<Row>(props: TableRowProps<Row>) {
  const { row, index, start, columns, selected, onSelect, onOpen, rowKey, is_flying, row_px } = props;
  const key = rowKey(row);
  const is_selected = selected?.has(key) ?? false;
  const choose = (on: boolean): void => {
    const next = new Set(selected);
    if (on) next.add(key);
    else next.delete(key);
    onSelect?.(next);
  };
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-selected={selected === undefined ? undefined : is_selected}
      tabIndex={-1}
      data-row
      onClick={(event) => {
        // React also bubbles events from menus and dialogs that a cell opened in a portal: ignore them.
        const is_here = event.target instanceof Node && event.currentTarget.contains(event.target);
        if (onOpen !== undefined && is_here && !isControl(event.target)) onOpen(row);
      }}
      onKeyDown={(event) => {
        if (event.target !== event.currentTarget) return;
        if (event.key === "Enter") onOpen?.(row);
        if (event.key === "x" && selected !== undefined) choose(!is_selected);
      }}
      className={cx(
        GRID,
        "absolute inset-x-0 border-b border-line -outline-offset-2 hover:bg-hover",
        onOpen !== undefined && "cursor-pointer",
        is_selected && "bg-accent-soft",
      )}
      style={{ height: row_px, transform: `translateY(${start}px)` }}
    >
      {selected !== undefined && (
        <div role="gridcell">
          {/* A native checkbox: cheap to render during fast scrolling. */}
          <label className="inline-flex size-6 items-center">
            <input
              type="checkbox"
              aria-label={`Select ${columns.find(({ text }) => text !== undefined)?.text?.(row) ?? "row"}`}
              checked={is_selected}
              onChange={(event) => choose(event.target.checked)}
              className={ROW_BOX}
            />
          </label>
        </div>
      )}
      {(is_flying ? columns.filter(({ text }) => text !== undefined) : columns).map(({ name, cell, text, align, priority = 1 }) => (
        <div key={name} role="gridcell" className={cx("min-w-0 truncate", HIDDEN[priority], align === "right" && `${RIGHT} tabular-nums`)}>
          {is_flying ? text?.(row) : cell(row)}
        </div>
      ))}
    </div>
  );
}

/** Style of the checkbox in a row, which looks like the checkbox in the header. */
const ROW_BOX = cx(
  "grid size-4 appearance-none place-content-center rounded border border-line-strong bg-surface checked:border-accent checked:bg-accent",
  "before:size-2.5 before:scale-0 before:bg-accent-ink before:[clip-path:polygon(14%_44%,0_65%,50%_100%,100%_16%,80%_0,43%_62%)] before:content-[''] checked:before:scale-100",
);

/** A memoized row, so that rows that stay visible are not rendered again while scrolling. */
const Row = memo(TableRow) as typeof TableRow;

const isControl = (target: EventTarget): boolean => target instanceof Element && target.closest("a, button, input, label, select") !== null;

/** Moves the focus to the next or previous rendered row. Scrolling it into view makes the virtualizer render further rows. */
function moveByKey(event: KeyboardEvent, scroller: HTMLElement | null): void {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (step === undefined || scroller === null || !(event.target instanceof Element)) return;
  // React also bubbles keys from menus and dialogs that a cell opened in a portal.
  if (!scroller.contains(event.target) || event.target.closest("input, select") !== null) return;
  const rows = [...scroller.querySelectorAll<HTMLElement>("[data-row]")];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at === -1 ? rows[0] : rows[at + step];
  if (next === undefined) return;
  event.preventDefault();
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

/** A paginated list, as `useLivePages` returns it. */
interface List<Row> {
  query: UseInfiniteQueryResult;
  rows: readonly Row[];
  has_more: boolean;
  onEnd: () => void;
  onRange?: (first: number, last: number) => void;
}

/** A table of a paginated list. Loads further pages while scrolling, and shows the loading and error states. */
export function ListTable<Row>({
  list: { query, ...list },
  placeholder_rows = 8,
  ...table
}: Omit<DataTableProps<Row>, keyof List<Row>> & { list: List<Row>; placeholder_rows?: number }) {
  return (
    <div className={table.height === undefined ? undefined : "flex min-h-0 flex-col"} aria-busy={query.isPlaceholderData}>
      <QueryState query={query} rows={placeholder_rows}>
        {() => <DataTable {...table} {...list} />}
      </QueryState>
    </div>
  );
}
