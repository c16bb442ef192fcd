import { ticker } from "../../ui/index.ts";
import { countdownText } from "./lengths.ts";

const TICK_MS = 1_000;

/** The current time, updated every second. */
const useSecond = ticker(TICK_MS);

/** Shows the time left, updated every second; `over` once it has passed. */
export function Countdown({ until, over = "now" }: { until: string; over?: string }) {
  const now = useSecond();
  return (
    <time dateTime={until} title={until} role="timer" className="font-medium tabular-nums">
      {countdownText(until, Math.max(now, Date.now() - TICK_MS)) ?? over}
    </time>
  );
}
