/** What an engine needs of a log; pino's logger is one. Messages are constant, values are fields. */
export interface EngineLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
