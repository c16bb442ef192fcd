import type { Clock } from "@roamfleet/clock";
import type { Settings } from "../config.ts";
import type { DatabaseSeen, DbAddress } from "../engines/db/index.ts";
import type { Seen } from "./finding.ts";
import type { Part } from "./read-settings.ts";

/** A database that was reached; why it was not; or that there is none to reach. */
export type Reached = { address: DbAddress; seen: DatabaseSeen } | { failure: unknown } | { absent: string };

/** What a check may look at. */
export interface DoctorContext {
  settings: Settings;
  /** What is wrong in the settings, in words for people. */
  wrong_settings: readonly string[];
  /** Parts of the settings that are wrong: `settings` has what holds without them. */
  wrong_parts: ReadonlySet<Part>;
  env: NodeJS.ProcessEnv;
  clock: Clock;
  /** Of each thing that is waited for. */
  timeout_ms: number;
  /** Aborted when the check's time is up: then it puts away what it has made, and ends. */
  signal: AbortSignal;
  /** The database, looked at once for all checks. Never rejects. */
  database: () => Promise<Reached>;
}

export interface Check {
  name: string;
  /** It has so long even when others have less: what it waits for comes at its own pace. */
  timeout_ms_min?: number;
  check: (context: DoctorContext) => Promise<Seen[]> | Seen[];
}
