import { DatabaseError } from "pg";

/**
 * The connection broke, or none could be had. A write under way may or may not have happened:
 * whoever asked must be told that, never that it failed and never that it succeeded.
 */
export class ConnectionLost extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ConnectionLost";
  }
}

/** What node-postgres says without a code, read in pg 8.23 and pg-pool 3. */
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

/** 08: connection exceptions, 57P: shutdown, crash, starting up; too many connections; an idle transaction ended by the server. */
const LOST_STATES = /^(08...|57P0.|53300|25P03|25P04)$/;

/** Whether the database was out of reach, so that asking again later may work (HTTP: 503). */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof ConnectionLost) return true;
  // After a panic, such as one on a full disk of the log, nobody knows whether the write happened.
  if (error instanceof DatabaseError) return error.severity === "PANIC" || (error.code !== undefined && LOST_STATES.test(error.code));
  if (!(error instanceof Error)) return false;
  if ("syscall" in error && "code" in error && typeof error.code === "string") return LOST_SOCKET_CODES.has(error.code);
  return LOST_MESSAGES.some((message) => error.message.startsWith(message));
}

/** Whether a row with this key exists already (HTTP: 409); with `constraint` only if that constraint or unique index said so. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  return error instanceof DatabaseError && error.code === "23505" && (constraint === undefined || error.constraint === constraint);
}

/** Whether there was no space left for a write, which surely did not happen then (HTTP: 503). Also for files of our own. */
export function isDiskFull(error: unknown): boolean {
  if (isConnectionLost(error) || !(error instanceof Error) || !("code" in error)) return false;
  return error.code === "53100" || error.code === "ENOSPC" || error.code === "EDQUOT";
}

/** Whether PostgreSQL cancelled the statement because it ran for too long (HTTP: 503). Nothing of it happened. */
export const isTimeout = (error: unknown): boolean => error instanceof DatabaseError && (error.code === "57014" || error.code === "55P03");

/** Whether the database serves nobody's statements at the moment, so that no single row of a batch is to blame. */
export const isOutage = (error: unknown): boolean => isConnectionLost(error) || isDiskFull(error) || isTimeout(error);

/** Serialization failure or deadlock: the transaction surely did not happen and may simply be run again. */
export function isRetryable(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === "40001" || error.code === "40P01");
}

/** The same error, as a ConnectionLost when it is one. */
export function classify(error: unknown): unknown {
  if (error instanceof ConnectionLost || !isConnectionLost(error)) return error;
  return new ConnectionLost("the connection to the database was lost", { cause: error });
}
