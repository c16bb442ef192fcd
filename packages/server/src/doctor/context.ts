import type { Clock } from "@roamfleet/clock";
import type { Settings } from "../config.ts";
import type { DatabaseSeen, DbAddress } from "../engines/db/index.ts";
import type { Seen } from "./finding.ts";
import type { Part } from "./read-settings.ts";

/** A reachable database, why it is unreachable, or why there is none. */
export type Reached = { address: DbAddress; seen: DatabaseSeen } | { failure: unknown } | { absent: string };

/** What checks can use. */
export interface DoctorContext {
  settings: Settings;
  /** Problems of the settings, in words for people. */
  wrong_settings: readonly string[];
  /** Parts of the settings with problems. `settings` contains the rest. */
  wrong_parts: ReadonlySet<Part>;
  env: NodeJS.ProcessEnv;
  clock: Clock;
  /** Limit of each wait. */
  timeout_ms: number;
  /** Aborted when the check's time is over. It must then clean up and end. */
  signal: AbortSignal;
  /** The database, probed once for all checks. Never rejects. */
  database: () => Promise<Reached>;
}

export interface Check {
  name: string;
  /** Minimum time limit, for a check that depends on a fixed interval. */
  timeout_ms_min?: number;
  check: (context: DoctorContext) => Promise<Seen[]> | Seen[];
}
