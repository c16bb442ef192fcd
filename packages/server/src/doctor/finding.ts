/** Result of a check: healthy, a risk, a problem that prevents the server from working, or not checked. */
export type Status = "ok" | "warning" | "problem" | "skipped";

export interface Finding {
  /** The checked part, in one or two words. */
  check: string;
  status: Status;
  /** What was found. */
  seen: string;
  /** How to fix it. */
  hint?: string;
}

/** A finding without the name of its check. */
export type Seen = Omit<Finding, "check">;

export const ok = (seen: string): Seen => ({ status: "ok", seen });
export const warning = (seen: string, hint: string): Seen => ({ status: "warning", seen, hint });
export const problem = (seen: string, hint: string): Seen => ({ status: "problem", seen, hint });
export const skipped = (seen: string): Seen => ({ status: "skipped", seen });
