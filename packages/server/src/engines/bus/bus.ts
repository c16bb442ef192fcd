import type { JsonValue } from "@roamfleet/protocol";

/**
 * Hints between parts of the plane and between nodes: at most once, in order per publisher, never the
 * truth. Whoever acts on a message reads the database; whoever may have missed one gets `onGap`.
 */
export interface Bus {
  /** Tells every subscriber of exactly this subject, on every node. Never throws, never waits. */
  publish(subject: string, message: JsonValue): void;
  /** The answer ends the subscription. A listener that throws is logged; nobody else notices. */
  subscribe(subject: string, listener: BusListener): () => void;
  /**
   * Resolves when what is subscribed to so far is in force, so that whatever any node publishes from then on is heard. Never throws, and
   * waits neither long nor for a connection that is not there: `onGap` is called then, once it is in force.
   */
  subscribed(): Promise<void>;
  /** Called when messages may have been lost (a broken connection): read the database again. The answer ends it. */
  onGap(listener: () => void): () => void;
  /** Whether other nodes are heard; always, where there are none. */
  readonly connected: boolean;
  /** Delivers nothing more once it resolved. */
  close(): Promise<void>;
}

/** Thrown by a listener for a message that it cannot read. The bus logs it on the level debug: anyone who may publish can cause it. */
export class MalformedHint extends Error {}

/** Whether a value of a message is of this kind. */
type Check = (value: unknown) => boolean;
export const isText: Check = (value) => typeof value === "string";
export const isInteger: Check = (value) => Number.isSafeInteger(value);
export const isListOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);

/**
 * Checks that a message has these fields. Anyone who may publish on the bus decides what a message holds.
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
