import type { JsonValue } from "@robofleet/protocol";

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

export type BusListener = (message: JsonValue, subject: string) => void | Promise<void>;
