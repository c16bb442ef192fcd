import type { JsonValue } from "@roamfleet/protocol";

/**
 * Pub/sub for hints between parts of the plane and between nodes. Delivery is at most once, in order per publisher. Messages are only
 * hints: subscribers read the database, and `onGap` is called when messages may be missing.
 */
export interface Bus {
  /** Publishes to every subscriber of exactly this subject, on every node. Never throws and never waits. */
  publish(subject: string, message: JsonValue): void;
  /** Returns a function that ends the subscription. Errors of a listener are logged and do not affect others. */
  subscribe(subject: string, listener: BusListener): () => void;
  /**
   * Resolves when the subscriptions made so far are active: messages that any node publishes afterwards are delivered. Never throws. Does
   * not wait long, nor for a missing connection: in that case `onGap` is called once they are active.
   */
  subscribed(): Promise<void>;
  /** Called when messages may have been lost (a broken connection): read the database again. Returns a function that ends it. */
  onGap(listener: () => void): () => void;
  /** Whether messages of other nodes arrive. Always true if there are none. */
  readonly connected: boolean;
  /** After it resolves, no message is delivered. */
  close(): Promise<void>;
}

/** Thrown by a listener for an invalid message. The bus logs it at level debug, because any publisher can cause it. */
export class MalformedHint extends Error {}

/** Returns whether a value of a message has the expected type. */
type Check = (value: unknown) => boolean;
export const isText: Check = (value) => typeof value === "string";
export const isInteger: Check = (value) => Number.isSafeInteger(value);
export const isListOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);

/**
 * Validates the fields of a message, which any publisher on the bus can choose.
 *
 * @throws MalformedHint
 */
export function readHint<T>(message: unknown, fields: { [K in keyof T]: Check }): T {
  const is_object = typeof message === "object" && message !== null && !Array.isArray(message);
  const given = is_object ? (message as Record<string, unknown>) : {};
  if (!is_object || !Object.entries<Check>(fields).every(([field, check]) => check(given[field]))) throw new MalformedHint("malformed");
  return given as T;
}

export type BusListener = (message: JsonValue, subject: string) => void | Promise<void>;
