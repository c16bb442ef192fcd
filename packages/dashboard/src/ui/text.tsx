import { Link, type LinkProps } from "@tanstack/react-router";
import { useSyncExternalStore } from "react";
import { byteText, dateText, durationText, relativeText } from "./format.ts";

/** Joins class names; leaves out `false` and `undefined`. */
export const cx = (...names: (string | false | undefined)[]): string => names.filter(Boolean).join(" ");

/** Untrusted text, such as names, tags and messages. Isolates its text direction and breaks long words. */
export function Text({ children, className }: { children: string | null | undefined; className?: string }) {
  if (children === null || children === undefined || children === "") return <span className="text-muted">—</span>;
  return <bdi className={cx("[overflow-wrap:anywhere]", className)}>{children}</bdi>;
}

/** Untrusted text, truncated to one line. The tooltip shows all of it. */
export function TextLine({ children, className }: { children: string | null | undefined; className?: string }) {
  if (children === null || children === undefined || children === "") return <span className="text-muted">—</span>;
  return (
    <bdi className={cx("block min-w-0 truncate", className)} title={children.slice(0, 500)}>
      {children}
    </bdi>
  );
}

/** A link to the page of an object, with its name on one line. */
export const NameLink = ({ name, className, ...link }: LinkProps & { name: string | null | undefined; className?: string }) => (
  <Link className={cx("block min-w-0 hover:underline", className)} {...link}>
    <TextLine>{name}</TextLine>
  </Link>
);

const TICK_MS = 10_000;

/** The current time, updated every ten seconds. */
export const useNow = ticker(TICK_MS);

/** A time as "5 min ago", or with `exact` as local date and time. The tooltip shows the exact time in UTC. */
export function Time({ at, exact = false }: { at: string | null | undefined; exact?: boolean }) {
  const now = useNow();
  if (at === null || at === undefined) return <span className="text-muted">never</span>;
  return (
    <time dateTime={at} title={at} className="whitespace-nowrap tabular-nums">
      {exact ? dateText(at) : relativeText(at, Math.max(now, Date.now() - TICK_MS))}
    </time>
  );
}

export const Duration = ({ seconds }: { seconds: number }) => <span className="tabular-nums">{durationText(seconds)}</span>;

export const Bytes = ({ count }: { count: number }) => (
  <span className="whitespace-nowrap tabular-nums" title={`${count.toLocaleString("en")} bytes`}>
    {byteText(count)}
  </span>
);

/**
 * Creates a hook that returns the current time in ms and updates it every `tick_ms`. One timer serves the whole page and runs only while a
 * component uses the hook.
 */
export function ticker(tick_ms: number): () => number {
  const listeners = new Set<() => void>();
  let now_ms = Date.now();
  let timer: ReturnType<typeof setInterval> | undefined;
  const tick = (): void => {
    now_ms = Date.now();
    for (const listener of listeners) listener();
  };
  const subscribe = (listener: () => void): (() => void) => {
    listeners.add(listener);
    if (timer === undefined) now_ms = Date.now();
    timer ??= setInterval(tick, tick_ms);
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
  };
  return () => useSyncExternalStore(subscribe, () => now_ms);
}
