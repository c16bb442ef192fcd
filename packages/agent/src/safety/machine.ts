import { readFileSync } from "node:fs";
import { uptime } from "node:os";
import { join } from "node:path";
import { readBootId } from "../identity/platform.ts";

/** What every process of the robot can agree on, whatever its clock says. */
export interface Machine {
  /** Names this boot. */
  readonly boot_id: string;
  /** Milliseconds since the boot, time asleep included; setting the clock does not move it. */
  uptime_ms(): number;
}

/** The machine that this process runs on; `system_root` is `/`, but for tests. */
export function thisMachine(system_root: string): Machine {
  return {
    boot_id: readBootId(system_root),
    uptime_ms: () => {
      try {
        const seconds = Number.parseFloat(readFileSync(join(system_root, "proc/uptime"), "utf8"));
        if (Number.isFinite(seconds)) return Math.round(seconds * 1_000);
      } catch {
        // No /proc: the system call says the same.
      }
      return Math.round(uptime() * 1_000);
    },
  };
}
