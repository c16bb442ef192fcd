export * from "./frame.ts";
export type * from "./messages.ts";
export { LOG_BATCH_RECORDS_MAX, LOG_LEVELS, LOG_MESSAGE_CHARACTERS_MAX } from "./limits.ts";
export * from "./signing.ts";
