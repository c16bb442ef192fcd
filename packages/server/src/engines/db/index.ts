export type { DbAddress } from "./connections.ts";
export { type Db, type DbEngine, type SystemDb, connect, type ConnectOptions } from "./pool.ts";
export {
  ConnectionLost,
  isConnectionLost,
  isDiskFull,
  isOutage,
  isTimeout,
  isUniqueViolation,
  mapUniqueViolation,
  onUniqueViolation,
} from "./errors.ts";
export { migrate, MIGRATIONS_DIRECTORY, migrationsIn, oneAhead, readSchemaRecord, writeSchemaRecord } from "./migrate.ts";
export { type DatabaseSeen, type MigrationsSeen, probeDatabase } from "./probe.ts";
export { dumpSchema } from "./schema-dump.ts";
