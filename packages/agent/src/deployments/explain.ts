import { REPORT_MESSAGE_CHARACTERS_MAX } from "../runtime/limits.ts";

/** The fields `reason` and `message` of a report, as far as there are any, within its bounds. */
export function explain(reason: string | null | undefined, message: string | null | undefined): { reason?: string; message?: string } {
  return { ...(reason ? { reason } : {}), ...(message ? { message: message.slice(0, REPORT_MESSAGE_CHARACTERS_MAX) } : {}) };
}
