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

/** What must survive the agent about one namespace. */
export interface ConfigState {
  namespace: string;
  /** What was put in place last; the file itself may have been changed by hand since. null: nothing yet. */
  applied: { version: number; sha256: string } | null;
  /** Journalled before the file is written, so that after a crash we know that it was us who changed it. */
  writing_sha256: string | null;
  finished: FinishedConfig[];
}

export const CONFIG_FINISHED_MAX = 4;

export const emptyConfigState = (namespace: string): ConfigState => ({ namespace, applied: null, writing_sha256: null, finished: [] });
