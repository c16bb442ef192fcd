import { closeSync, openSync, writeSync } from "node:fs";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import { errorText } from "../disk/write-atomically.ts";
import type { Launched } from "./launched.ts";

/** The launcher kills an agent whose heartbeat does not change for 60 s. */
const BEAT_MS = 5_000;
/** Number of digits of the counter. It is fixed, so that writing the file needs no additional space. */
const DIGITS = 12;

/**
 * Shows the launcher that the event loop runs, by a counter in a file. Calls `orphaned` once if the launcher has ended: then nothing
 * watches this agent, and another launcher may start a second one. Returns a function that stops both.
 */
export function startHeartbeat(
  { run_directory, launcher_pid }: Launched,
  { clock, log, orphaned }: { clock: Clock; log: (text: string) => void; orphaned: () => void },
): () => void {
  let handle: number | undefined;
  let count = 0;
  let is_orphan = false;
  try {
    handle = openSync(path.join(run_directory, "heartbeat"), "r+");
  } catch (error) {
    log(`the launcher cannot detect whether this agent hangs: ${errorText(error)}`);
  }
  const beat = (): void => {
    count += 1;
    if (handle !== undefined) writeSync(handle, `${String(count).padStart(DIGITS, "0")}\n`, 0);
    if (is_orphan || process.ppid === launcher_pid) return;
    is_orphan = true;
    orphaned();
  };
  beat();
  const timer = clock.every(BEAT_MS, async () => beat());
  return () => {
    timer.cancel();
    if (handle !== undefined) closeSync(handle);
    handle = undefined;
  };
}
