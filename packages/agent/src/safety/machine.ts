import { readFileSync } from "node:fs";
import { uptime } from "node:os";
import { join } from "node:path";
import { readBootId } from "../identity/platform.ts";

/** Machine-wide values that are the same for all processes and independent of the clock. */
export interface Machine {
  /** Id of this boot. */
  readonly boot_id: string;
  /** Milliseconds since boot, including suspend; setting the clock does not change it. */
  uptime_ms(): number;
}

/** Returns the machine that this process runs on. `system_root` is `/` except in tests. */
export function thisMachine(system_root: string): Machine {
  return {
    boot_id: readBootId(system_root),
    uptime_ms: () => {
      try {
        const seconds = Number.parseFloat(readFileSync(join(system_root, "proc/uptime"), "utf8"));
        if (Number.isFinite(seconds)) return Math.round(seconds * 1_000);
      } catch {
        // No /proc: the system call returns the same.
      }
      return Math.round(uptime() * 1_000);
    },
  };
}
