export type { DbAddress } from "./connections.ts";
export type { Db, DbEngine, SystemDb } from "./pool.ts";
export { ConnectionLost, isConnectionLost, isDiskFull, isOutage, isTimeout, isUniqueViolation, mapUniqueViolation } from "./errors.ts";
export { migrate, MIGRATIONS_DIRECTORY, migrationsIn, oneAhead } from "./migrate.ts";
export { connect, type ConnectOptions } from "./pool.ts";
export { type DatabaseSeen, type MigrationsSeen, probeDatabase } from "./probe.ts";
export { readSchemaRecord, writeSchemaRecord } from "./migrate.ts";
export { dumpSchema } from "./schema-dump.ts";
