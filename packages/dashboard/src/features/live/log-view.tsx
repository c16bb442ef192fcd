import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown } from "lucide-react";
import { type KeyboardEvent, useCallback, useEffect, useLayoutEffect, useRef, useState, type WheelEvent } from "react";
import { flushSync } from "react-dom";
import { Button, counted, EmptyState, ErrorState, Skeleton } from "../../ui/index.ts";
import { LogLine } from "./log-line.tsx";
import type { UsedLogFeed } from "./log-feed.ts";

/** Scroll direction of each key: -1 is up. Key and wheel events are handled directly, because their scroll event may follow much later. */
const KEY_LEADS: Readonly<Record<string, number>> = { ArrowUp: -1, PageUp: -1, Home: -1, ArrowDown: 1, PageDown: 1, End: 1 };
/** Scrolling counts as scrolling by the user for this long after a press on the scroll bar or a touch, otherwise as automatic. */
const PRESSED_MS = 5_000;
const ROW_PX = 25;
const OVERSCAN_ROWS = 20;
/** Distance to the end within which the view follows the log. */
const END_PX = 30;
/** Distance to the start within which older records are loaded. */
const AHEAD_PX = 500;

export interface LogViewProps {
  label: string;
  feed: UsedLogFeed;
  wanted: string;
  wrap: boolean;
  /** Returns the name of a robot; only in a fleet's log. */
  nameOf?: (robot_id: string) => string;
  /** Shown if there are no records. */
  empty: string;
}

/** The records of a log. Scrolling up pauses the view: new records wait behind a button. */
export function LogView(props: LogViewProps) {
  const { state, again } = props.feed;
  if (state.is_loading && state.buffer.rows.length === 0) return <Skeleton rows={12} />;
  if (state.error !== undefined && state.buffer.rows.length === 0) return <ErrorState error={state.error} onRetry={again} />;
  return <Rows {...props} />;
}

function Rows({ label, feed, wanted, wrap, nameOf, empty }: LogViewProps) {
  const { state, follow } = feed;
  const { rows, waiting } = state.buffer;
  const scroller = useRef<HTMLDivElement>(null);
  const [is_following, setFollowing] = useState(true);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN_ROWS,
    getItemKey: (index) => rows[index]?.key ?? index,
    // Keep the visible rows in place when older ones are prepended.
    anchorTo: "end",
    followOnAppend: is_following,
    scrollEndThreshold: END_PX,
  });
  const height = virtual.getTotalSize();
  // Scroll through the virtualizer: it would revert a direct write to scrollTop.
  useLayoutEffect(() => {
    if (is_following) virtual.scrollToEnd();
  }, [virtual, rows, height, is_following]);
  useEffect(() => virtual.measure(), [virtual, wrap]);
  const scrolling = useScrolled({ scroller, feed, is_following, setFollowing, list: virtual });
  useOlder(scroller, feed, is_following);
  const toEnd = (): void => {
    setFollowing(true);
    follow();
  };
  const toggle = useCallback((id: string): void => {
    setOpen((old) => {
      const next = new Set(old);
      if (!next.delete(Number(id))) next.add(Number(id));
      return next;
    });
  }, []);
  return (
    <div className="relative min-h-0 flex-1">
      <div
        ref={scroller}
        role="log"
        aria-label={label}
        aria-live="off"
        tabIndex={0}
        {...scrolling}
        className="h-full overflow-x-hidden overflow-y-auto rounded-lg border border-line bg-sunken [overflow-anchor:none]"
      >
        <Older feed={feed} />
        {rows.length === 0 && !state.is_loading && <EmptyState title="No records">{empty}</EmptyState>}
        <div className="relative" style={{ height }}>
          {virtual.getVirtualItems().map(({ index, key, start }) => {
            const row = rows[index];
            if (row === undefined) return null;
            const { record } = row;
            const shared = { record, wanted, wrap, robot_name: nameOf?.(record.robot_id), is_open: open.has(row.key) };
            const style = { transform: `translateY(${start}px)` };
            return (
              <div key={key} ref={virtual.measureElement} data-index={index} className="absolute inset-x-0" style={style}>
                <LogLine {...shared} id={String(row.key)} onToggle={toggle} />
              </div>
            );
          })}
        </div>
      </div>
      {!is_following && <ToEnd waiting={waiting} onClick={toEnd} />}
    </div>
  );
}

/** Handles scrolling: scrolling up pauses the view, and scrolling to the end resumes it. */
function useScrolled(options: {
  scroller: React.RefObject<HTMLDivElement | null>;
  feed: UsedLogFeed;
  is_following: boolean;
  setFollowing: (is_following: boolean) => void;
  list: { scrollToEnd: () => void; cancelScroll: () => void };
}) {
  const { scroller, feed, is_following, setFollowing, list } = options;
  const { state, loadOlder, hold, follow } = feed;
  const last_top = useRef(0);
  const was_at_end = useRef(true);
  const pressed_until = useRef(0);
  const press = (): void => void (pressed_until.current = performance.now() + PRESSED_MS);
  const read = (): void => {
    if (!is_following) return;
    hold();
    list.cancelScroll();
    // Update synchronously: the next scroll event must see that the view no longer follows the log.
    flushSync(() => setFollowing(false));
  };
  const rejoin = (): void => {
    if (is_following || state.buffer.is_cut || state.buffer.waiting > 0) return;
    setFollowing(true);
    follow();
  };
  const lead = (down: number): void => {
    const element = scroller.current;
    // A list without a scroll range is always at its end, so it cannot be paused by scrolling.
    if (element === null || element.scrollHeight - element.clientHeight < END_PX) return;
    if (down > 0 && isAtEnd(element)) rejoin();
    if (down >= 0) return;
    // The scroll event of the last automatic scroll to the end may arrive later. It must not resume following.
    was_at_end.current = true;
    read();
  };
  const onScroll = (): void => {
    const element = scroller.current;
    if (element === null) return;
    const { scrollTop } = element;
    const at_end = isAtEnd(element);
    const is_back = at_end && !was_at_end.current;
    const went_up = scrollTop < last_top.current - 2 && performance.now() < pressed_until.current;
    last_top.current = scrollTop;
    was_at_end.current = at_end;
    if (is_following && went_up && !at_end) read();
    else if (is_following && !at_end) list.scrollToEnd();
    else if (is_back) rejoin();
    if (!is_following && scrollTop < AHEAD_PX && state.error === undefined) loadOlder();
  };
  return {
    onScroll,
    onWheel: ({ deltaY, ctrlKey }: WheelEvent) => void (ctrlKey || lead(deltaY)),
    onKeyDown: ({ key }: KeyboardEvent) => lead(KEY_LEADS[key] ?? 0),
    onTouchMove: press,
    onPointerDown: press,
  };
}

const isAtEnd = ({ scrollHeight, scrollTop, clientHeight }: HTMLElement): boolean => scrollHeight - scrollTop - clientHeight < END_PX;

/** Loads more older records while the view is at the start, where no scroll event would trigger the next load. */
function useOlder(scroller: React.RefObject<HTMLDivElement | null>, { state, loadOlder }: UsedLogFeed, is_following: boolean): void {
  const { has_older, is_loading_older, error, buffer } = state;
  const is_idle = has_older && !is_loading_older && error === undefined;
  useEffect(() => {
    if (is_idle && !is_following && scroller.current !== null && scroller.current.scrollTop < AHEAD_PX) loadOlder();
    // This effect runs when the records change, not with each change of the feed.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [buffer.rows, is_idle, is_following]);
}

function ToEnd({ waiting, onClick }: { waiting: number; onClick: () => void }) {
  return (
    <Button
      look="primary"
      icon={ArrowDown}
      onClick={onClick}
      className="absolute bottom-3 left-1/2 -translate-x-1/2 rounded-full shadow-raised"
    >
      {waiting === 0 ? "Jump to latest" : `Show ${counted(waiting, "new record")}`}
    </Button>
  );
}

function Older({ feed: { state, loadOlder } }: { feed: UsedLogFeed }) {
  const { has_older, is_loading_older, error, buffer } = state;
  if (!has_older) return buffer.rows.length === 0 ? null : <p className="py-1 text-center text-xs text-muted">No older records</p>;
  return (
    <div className="py-1 text-center">
      <Button look="quiet" busy={is_loading_older} onClick={loadOlder} className="!h-[24px] text-xs">
        {error === undefined ? "Load older records" : "Could not load older records. Try again"}
      </Button>
    </div>
  );
}
