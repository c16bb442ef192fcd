export type { Db, DbEngine } from "./db.ts";
export { ConnectionLost, isConnectionLost, isUniqueViolation } from "./errors.ts";
export { migrate, MIGRATIONS_DIRECTORY } from "./migrate.ts";
export { connect, type ConnectOptions, type DbAddress } from "./pool.ts";
export { dumpSchema } from "./schema-dump.ts";
