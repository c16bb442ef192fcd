/** How a config deployment ended on this robot. */
export interface FinishedConfig {
  target_id: string;
  deployment_id: string;
  attempt: number;
  status: "applied" | "failed" | "cancelled";
  reason: string | null;
  message: string | null;
  changed: boolean;
  reported: boolean;
}

/** The persistent state of one namespace. */
export interface ConfigState {
  namespace: string;
  /** The last written version; the file may have been changed by hand since. null: nothing written yet. */
  applied: { version: number; sha256: string } | null;
  /** Journaled before the file is written. After a crash it shows that the agent changed the file. */
  writing_sha256: string | null;
  finished: FinishedConfig[];
}

export const CONFIG_FINISHED_MAX = 4;

export const emptyConfigState = (namespace: string): ConfigState => ({ namespace, applied: null, writing_sha256: null, finished: [] });
