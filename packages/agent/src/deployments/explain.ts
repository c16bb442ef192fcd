import { REPORT_MESSAGE_CHARACTERS_MAX } from "../runtime/limits.ts";

/** Returns the fields `reason` and `message` of a report if they have values, truncated to its limits. */
export function explain(reason: string | null | undefined, message: string | null | undefined): { reason?: string; message?: string } {
  return { ...(reason ? { reason } : {}), ...(message ? { message: message.slice(0, REPORT_MESSAGE_CHARACTERS_MAX) } : {}) };
}
