import { DatabaseError } from "pg";

/**
 * The connection broke, or no connection was available. A write may or may not have been committed, so callers must report neither success
 * nor failure.
 */
export class ConnectionLost extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ConnectionLost";
  }
}

/** Messages of node-postgres errors without a code, from pg 8.23 and pg-pool 3. */
const LOST_MESSAGES = [
  "Connection terminated",
  "timeout exceeded when trying to connect",
  "Client has encountered a connection error",
  "Client was closed",
  "Query read timeout",
  "Cannot use a pool after calling end",
];

const LOST_SOCKET_CODES = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ENOENT",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
]);

/** SQLSTATEs: 08 connection exceptions, 57P0 shutdown, crash or startup, 53300 too many connections, 25P0x idle transaction timeout. */
const LOST_STATES = /^(08...|57P0.|53300|25P03|25P04)$/;

/** Returns whether the database was unreachable, so that a retry may work (HTTP: 503). */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof ConnectionLost) return true;
  // A PANIC, such as a full disk of the write-ahead log, crashes the database, so the outcome of the write is unknown.
  if (error instanceof DatabaseError) return error.severity === "PANIC" || (error.code !== undefined && LOST_STATES.test(error.code));
  if (!(error instanceof Error)) return false;
  if ("syscall" in error && "code" in error && typeof error.code === "string") return LOST_SOCKET_CODES.has(error.code);
  return LOST_MESSAGES.some((message) => error.message.startsWith(message));
}

/** Returns whether the error means that a row with this key exists (HTTP 409). With `constraint`, only that constraint or index counts. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  return error instanceof DatabaseError && error.code === "23505" && (constraint === undefined || error.constraint === constraint);
}

/** Awaits a write. If a row with this key exists already, throws `taken()` instead of the database's error. */
export async function mapUniqueViolation<T>(write: Promise<T>, taken: () => Error): Promise<T> {
  try {
    return await write;
  } catch (error) {
    throw isUniqueViolation(error) ? taken() : error;
  }
}

/** Returns a function that replaces a violation of this constraint by `taken()` and returns other errors unchanged; for `atCommit`. */
export const onUniqueViolation =
  (constraint: string, taken: () => Error) =>
  (error: unknown): unknown =>
    isUniqueViolation(error, constraint) ? taken() : error;

/** Returns whether the error means that the disk or quota is full (HTTP 503). The write did not happen. Also accepts file errors. */
export function isDiskFull(error: unknown): boolean {
  if (isConnectionLost(error) || !(error instanceof Error) || !("code" in error)) return false;
  return error.code === "53100" || error.code === "ENOSPC" || error.code === "EDQUOT";
}

/** Returns whether PostgreSQL canceled the statement because of a timeout (HTTP: 503). It had no effect. */
export const isTimeout = (error: unknown): boolean => error instanceof DatabaseError && (error.code === "57014" || error.code === "55P03");

/** Returns whether the database currently cannot process any statement. If so, no row of a failed batch is the cause. */
export const isOutage = (error: unknown): boolean => isConnectionLost(error) || isDiskFull(error) || isTimeout(error);

/** Returns whether the error is a serialization failure or a deadlock: the transaction was rolled back and can be retried. */
export function isRetryable(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === "40001" || error.code === "40P01");
}

/** Returns a ConnectionLost if the error means that the connection was lost, otherwise the error itself. */
export function classify(error: unknown): unknown {
  if (error instanceof ConnectionLost || !isConnectionLost(error)) return error;
  return new ConnectionLost("the connection to the database was lost", { cause: error });
}
