/** The part of a logger that engines need, such as pino's. Messages are constant, values are fields. */
export interface EngineLog {
  /** Loggers of tests may lack it. */
  debug?(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Drops everything, for probes whose findings the caller reports. */
export const SILENT: EngineLog = { info() {}, warn() {}, error() {} };
