/** What an engine needs of a log; pino's logger is one. Messages are constant, values are fields. */
export interface EngineLog {
  /** Loggers of tests may lack it. */
  debug?(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
