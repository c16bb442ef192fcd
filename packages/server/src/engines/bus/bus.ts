import type { JsonValue } from "@roamfleet/protocol";

/**
 * Publish/subscribe between the parts of a server and between servers. Delivery is at most once, in order per publisher. A message is only
 * a hint that data changed: subscribers read the data from the database. `onGap` is called when messages may have been lost.
 */
export interface Bus {
  /** Publishes to every subscriber of exactly this subject, on every node. Never throws and never waits. */
  publish(subject: string, message: JsonValue): void;
  /** Returns a function that ends the subscription. Errors of a listener are logged and do not affect other listeners. */
  subscribe(subject: string, listener: BusListener): () => void;
  /**
   * Resolves when the subscriptions made so far are active: messages that any node publishes afterwards are delivered. Never throws. If the
   * bus is disconnected or slow to confirm, it resolves earlier and calls `onGap` when the subscriptions are active.
   */
  subscribed(): Promise<void>;
  /** Registers a listener for lost messages, which must read the database again. Returns a function that removes the listener. */
  onGap(listener: () => void): () => void;
  /** Whether messages of other nodes arrive. Always true for a bus within one process. */
  readonly connected: boolean;
  /** Closes the bus. No message is delivered after it resolves. */
  close(): Promise<void>;
}

/** Thrown by a listener for an invalid message. The bus logs it at level debug, because any publisher can cause it. */
export class MalformedHint extends Error {}

/** Returns whether a field of a message has the expected type. */
type Check = (value: unknown) => boolean;
export const isText: Check = (value) => typeof value === "string";
export const isInteger: Check = (value) => Number.isSafeInteger(value);
export const isListOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);

/**
 * Returns the message if its fields have the expected types. Messages are untrusted: any client of the bus can publish them.
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
