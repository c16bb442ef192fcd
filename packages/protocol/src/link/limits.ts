/** Limits that both ends of the link use; separate from the schemas, so that the agent does not load those. */
export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

/** Maximum message length; the agent truncates longer ones and reports that in `fields.truncated_bytes`. */
export const LOG_MESSAGE_CHARACTERS_MAX = 16_384;
/** Maximum apps of a robot, and of the releases of an org. */
export const APPS_MAX = 256;
export const LOG_BATCH_RECORDS_MAX = 1_000;
