import { DatabaseError } from "pg";

/**
 * The connection broke, or none was available. A running write may or may not have been committed: callers must report neither success nor
 * failure.
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

/** 08: connection exceptions. 57P: shutdown, crash, starting up. Others: too many connections, an idle transaction ended by the server. */
const LOST_STATES = /^(08...|57P0.|53300|25P03|25P04)$/;

/** Returns whether the database was unreachable, so that a retry may work (HTTP: 503). */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof ConnectionLost) return true;
  // After a panic, such as a full disk of the write-ahead log, the outcome of the write is unknown.
  if (error instanceof DatabaseError) return error.severity === "PANIC" || (error.code !== undefined && LOST_STATES.test(error.code));
  if (!(error instanceof Error)) return false;
  if ("syscall" in error && "code" in error && typeof error.code === "string") return LOST_SOCKET_CODES.has(error.code);
  return LOST_MESSAGES.some((message) => error.message.startsWith(message));
}

/** Returns whether a row with this key exists already (HTTP: 409), with `constraint` only for that constraint or unique index. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  return error instanceof DatabaseError && error.code === "23505" && (constraint === undefined || error.constraint === constraint);
}

/** Awaits a write. Throws the error of `taken` if a row with this key exists already. */
export async function mapUniqueViolation<T>(write: Promise<T>, taken: () => Error): Promise<T> {
  try {
    return await write;
  } catch (error) {
    throw isUniqueViolation(error) ? taken() : error;
  }
}

/** Returns whether there was no space left, so that a write surely did not happen (HTTP: 503). Also for errors of files. */
export function isDiskFull(error: unknown): boolean {
  if (isConnectionLost(error) || !(error instanceof Error) || !("code" in error)) return false;
  return error.code === "53100" || error.code === "ENOSPC" || error.code === "EDQUOT";
}

/** Returns whether PostgreSQL canceled the statement because of a timeout (HTTP: 503). It had no effect. */
export const isTimeout = (error: unknown): boolean => error instanceof DatabaseError && (error.code === "57014" || error.code === "55P03");

/** Returns whether the database cannot process any statement now, so that no single row of a batch is the cause. */
export const isOutage = (error: unknown): boolean => isConnectionLost(error) || isDiskFull(error) || isTimeout(error);

/** Returns whether it is a serialization failure or deadlock: the transaction surely did not happen and can be retried. */
export function isRetryable(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === "40001" || error.code === "40P01");
}

/** Returns the error, converted to ConnectionLost if it is one. */
export function classify(error: unknown): unknown {
  if (error instanceof ConnectionLost || !isConnectionLost(error)) return error;
  return new ConnectionLost("the connection to the database was lost", { cause: error });
}
