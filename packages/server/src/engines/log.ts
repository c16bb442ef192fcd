/** The part of a logger, such as pino, that engines need. Messages are constant texts; variable values are in the fields. */
export interface EngineLog {
  /** Optional, because loggers in tests may lack it. */
  debug?(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Discards all messages. For probes, which return their results to the caller instead of logging them. */
export const SILENT: EngineLog = { info() {}, warn() {}, error() {} };
