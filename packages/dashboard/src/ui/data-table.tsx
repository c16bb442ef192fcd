import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type ReactNode, useCallback, useEffect, useRef } from "react";
import { cx } from "./class-names.ts";
import { Checkbox } from "./field.tsx";

const ROW_PX = 40;
const OVERSCAN_ROWS = 6;
/** The next page is fetched when so few rows are left below. */
const AHEAD_ROWS = 40;

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ReactNode;
  /** The same in short, for rows that fly past; absent: nothing is shown of it meanwhile. */
  text?: (row: Row) => string;
  /** A track of CSS grid, such as `minmax(8rem, 2fr)`. */
  width: string;
  /** 1 is shown on every screen, 2 from 640 px, 3 from 1024 px (default 1). */
  priority?: 1 | 2 | 3;
  align?: "right";
}

export interface DataTableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  /** What Enter or a click on the row opens. Cells may hold links of their own. */
  onOpen?: (row: Row) => void;
  /** Rows that are chosen, by key; with it each row has a box. */
  selected?: ReadonlySet<string>;
  onSelect?: (keys: ReadonlySet<string>) => void;
  /** Called when the end comes near: fetch the next page. */
  onEnd?: () => void;
  /** Called with the first and last row on the screen, when those are others. */
  onRange?: (first: number, last: number) => void;
  /** More rows are there than were fetched. */
  has_more?: boolean;
  /** Shown when there is no row. */
  empty?: ReactNode;
  /** How high it is; absent: as high as its rows, up to 70 % of the window. */
  height?: string;
}

const HIDDEN: Record<1 | 2 | 3, string> = { 1: "", 2: "max-sm:hidden", 3: "max-lg:hidden" };

/**
 * Rows of a list, of which only those on the screen exist: 100,000 scroll like ten. Arrow keys and j, k move, Enter opens,
 * x chooses.
 */
export function DataTable<Row>(props: DataTableProps<Row>) {
  const { rows, rowKey, onEnd, onRange, has_more = false } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN_ROWS,
    // A new function would have it measure all the rows anew.
    getItemKey: useCallback((index: number) => rowKey(rows[index]!), [rows, rowKey]),
  });
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
  const shared = { columns, selected, onSelect, onOpen, rowKey, is_flying };
  return (
    <div
      ref={scroller}
      role="grid"
      aria-label={props.label}
      aria-rowcount={has_more ? -1 : rows.length + 1}
      tabIndex={0}
      onKeyDown={(event) => moveByKey(event, scroller.current)}
      className="min-w-0 overflow-x-hidden overflow-y-auto rounded-lg border border-line"
      style={{ ...tracks(props), height: props.height, maxHeight: props.height === undefined ? "70dvh" : undefined }}
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
 * Whether the rows fly past faster than anybody reads, from a jump by more than is on the screen to the end of the scrolling:
 * they are made with what is cheap, or each frame of it would keep the page's thread for too long.
 */
function useFlight(is_scrolling: boolean, first: number, count: number): boolean {
  const flight = useRef({ is_on: false, first });
  const is_jump = Math.abs(first - flight.current.first) > count;
  flight.current = { is_on: is_scrolling && (flight.current.is_on || is_jump), first };
  return flight.current.is_on;
}

/** Figures end where their column does, with air before the text of the next. */
const RIGHT = "text-right not-last:pr-3";

/** The tracks of each width of screen, as CSS variables: classes cannot hold them. */
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
  const { columns, rows, selected, onSelect, rowKey } = props;
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
        {columns.map(({ name, align, priority = 1 }) => (
          <div key={name} role="columnheader" className={cx("truncate", HIDDEN[priority], align === "right" && RIGHT)}>
            {name === "" ? <span className="sr-only">Actions</span> : name}
          </div>
        ))}
      </div>
    </div>
  );
}

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
}

function TableRow<Row>(props: TableRowProps<Row>) {
  const { row, index, start, columns, selected, onSelect, onOpen, rowKey, is_flying } = props;
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
        // What a cell opens over the page is no part of the row, but React sends its events here too.
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
      style={{ height: ROW_PX, transform: `translateY(${start}px)` }}
    >
      {selected !== undefined && (
        <div role="gridcell">
          {/* The browser's own: it costs nothing while rows fly past. */}
          <label className="inline-flex size-6 items-center">
            <input
              type="checkbox"
              aria-label="Choose"
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

/** Looks like the box in the head. */
const ROW_BOX = cx(
  "grid size-4 appearance-none place-content-center rounded border border-line-strong bg-surface checked:border-accent checked:bg-accent",
  "before:size-2.5 before:scale-0 before:bg-accent-ink before:[clip-path:polygon(14%_44%,0_65%,50%_100%,100%_16%,80%_0,43%_62%)] before:content-[''] checked:before:scale-100",
);

/** Rows that stay on the screen while others come are not made again. */
const Row = memo(TableRow) as typeof TableRow;

const isControl = (target: EventTarget): boolean => target instanceof Element && target.closest("a, button, input, label, select") !== null;

/** Moves the focus among the rows that exist; the browser scrolls along, and then the next ones do. */
function moveByKey(event: KeyboardEvent, scroller: HTMLElement | null): void {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (step === undefined || scroller === null || !(event.target instanceof Element)) return;
  // Keys of what a cell opened over the page (a menu, a dialog) come here too.
  if (!scroller.contains(event.target) || event.target.closest("input, select") !== null) return;
  const rows = [...scroller.querySelectorAll<HTMLElement>("[data-row]")];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at === -1 ? rows[0] : rows[at + step];
  if (next === undefined) return;
  event.preventDefault();
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}
