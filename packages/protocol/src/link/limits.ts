/** Bounds that both ends of the link know; apart from the schemas, so that the agent need not load those. */
export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

/** Longest message that an agent sends; it cuts longer ones and says so in `fields.truncated_bytes`. */
export const LOG_MESSAGE_CHARACTERS_MAX = 16_384;
/** Apps that a robot may have, and that the releases of an org may name. */
export const APPS_MAX = 256;
export const LOG_BATCH_RECORDS_MAX = 1_000;
