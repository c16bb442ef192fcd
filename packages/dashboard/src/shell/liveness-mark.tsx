import { useLiveness } from "../api/events.ts";
import { cx } from "../ui/index.ts";

const WORDS = {
  live: "Live: changes appear by themselves",
  connecting: "Connecting",
  polling: "Not live: read anew every few seconds, and out of date while the server does not answer",
} as const;
const SHORT = { live: "Live", connecting: "Connecting", polling: "Not live" } as const;

/** Whether what is on the screen follows the server. */
export function LivenessMark() {
  const liveness = useLiveness();
  return (
    <span role="status" title={WORDS[liveness]} className="inline-flex items-center gap-1.5 text-xs text-muted">
      <span className={cx("size-2 rounded-full", liveness === "live" ? "bg-ok" : liveness === "polling" ? "bg-warn" : "bg-line-strong")} />
      {SHORT[liveness]}
    </span>
  );
}
