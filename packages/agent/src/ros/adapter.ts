/** The interface of every way to reach the ROS of a robot. The bridge (bridge.ts) finds the adapters that answer; all other code uses the bridge. */
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { RosAdapterName } from "../config-file/robot-config.ts";
import type { RosSettings } from "./settings.ts";

export type { RosAdapterName };

export interface RosTopic {
  /** As ROS writes it: `/camera/image/compressed`. */
  name: string;
  /** As ROS writes it: `std_msgs/msg/String` in ROS 2, `std_msgs/String` in ROS 1. */
  type: string;
}

export interface RosMessage {
  type: string;
  /** When it was published if the adapter receives that, otherwise when it arrived. */
  at: Date;
  /**
   * The decoded message: objects of fields, arrays or typed arrays, bigint for 64-bit integers, NaN and infinities unchanged. An adapter may decode
   * it on first access, so that unused messages cost nothing. A message that cannot be decoded is an UndecodedMessage.
   */
  readonly message: unknown;
}

/** Replaces a message whose type is unknown, or whose bytes do not match its type. */
export class UndecodedMessage {
  readonly bytes: Uint8Array;
  /** For people: why, and what would help. */
  readonly reason: string;

  constructor(bytes: Uint8Array, reason: string) {
    this.bytes = bytes;
    this.reason = reason;
  }
}

export interface RosAdapter {
  readonly name: RosAdapterName;
  /** `humble`, `noetic`; null if unknown. */
  readonly distro: string | null;
  /** Resolves, with the reason, when the adapter no longer answers; after `close` as well. Never rejects. */
  readonly gone: Promise<string>;
  /** Returns the known names of nodes as ROS writes them. An adapter that has to query them may take up to ROS_ASK_TIMEOUT_MS. */
  nodes(): string[] | Promise<string[]>;
  /** Returns the topics that have a publisher. */
  topics(): RosTopic[] | Promise<RosTopic[]>;
  /**
   * Passes on each message of the topic until the returned function is called; called once per topic at a time. The topic may have no publisher yet.
   * `on` is never called once the adapter is gone.
   */
  subscribe(topic: string, on: (message: RosMessage) => void): Promise<() => void>;
  close(): Promise<void>;
}

/** Time limit of `nodes`, `topics` and `subscribe`. */
export const ROS_ASK_TIMEOUT_MS = 5_000;

export interface RosAdapterOptions {
  settings: RosSettings;
  clock: Clock;
  log: Logger;
  /** Aborted when the search is cancelled. */
  signal: AbortSignal;
}

/**
 * Returns an adapter if ROS is reachable this way, otherwise undefined (no server listens, no such command, no participant on the bus). The latter is
 * the usual case: it is cheap, logs nothing and takes at most ROS_FIND_TIMEOUT_MS. Heavy modules are imported only once success is likely.
 */
export type FindRosAdapter = (options: RosAdapterOptions) => Promise<RosAdapter | undefined>;

export const ROS_FIND_TIMEOUT_MS = 10_000;
