import { byteText, dateText, durationText, relativeText } from "./format.ts";
import { ticker } from "./ticker.ts";

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
