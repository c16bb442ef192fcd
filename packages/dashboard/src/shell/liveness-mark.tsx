import { type Liveness, useLiveness } from "../api/events.ts";
import { cx } from "../ui/index.ts";

const WORDS: Record<Liveness, string> = {
  live: "Live: changes appear without a reload",
  connecting: "Connecting to the server",
  polling: "Not live: refreshed every 5 s",
  stale: "Not live: the server is not responding and the data shown is out of date",
};
const SHORT: Record<Liveness, string> = { live: "Live", connecting: "Connecting", polling: "Not live", stale: "Not live" };
const DOTS: Record<Liveness, string> = { live: "bg-ok", connecting: "bg-line-strong", polling: "bg-warn", stale: "bg-bad" };

/** Shows whether the page receives changes live. */
export function LivenessMark() {
  const liveness = useLiveness();
  return (
    <span role="status" title={WORDS[liveness]} className="inline-flex items-center gap-1.5 text-xs text-muted">
      <span className={cx("size-2 rounded-full", DOTS[liveness])} />
      {SHORT[liveness]}
    </span>
  );
}
