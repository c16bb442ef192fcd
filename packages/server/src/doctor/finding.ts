/** What one check found: all is well, something will bite one day, the server will not work so, or it was not looked at. */
export type Status = "ok" | "warning" | "problem" | "skipped";

export interface Finding {
  /** What was looked at, in one or two words. */
  check: string;
  status: Status;
  /** What was seen there. */
  seen: string;
  /** What to do about it. */
  hint?: string;
}

/** A finding before it is known which check made it. */
export type Seen = Omit<Finding, "check">;

export const ok = (seen: string): Seen => ({ status: "ok", seen });
export const warning = (seen: string, hint: string): Seen => ({ status: "warning", seen, hint });
export const problem = (seen: string, hint: string): Seen => ({ status: "problem", seen, hint });
export const skipped = (seen: string): Seen => ({ status: "skipped", seen });
