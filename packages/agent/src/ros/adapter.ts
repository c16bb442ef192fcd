/** What every way to reach the ROS of a robot offers. The bridge (bridge.ts) finds the one that answers; nobody else uses an adapter directly. */
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
  /** When it was published if the adapter is told, else when it came. */
  at: Date;
  /**
   * The decoded message: objects of fields, arrays or typed arrays, bigint for 64-bit integers, NaN and infinities as they are. An adapter may
   * decode it when it is first read, so that what nobody shows costs nothing. A message that cannot be decoded is an UndecodedMessage.
   */
  readonly message: unknown;
}

/** In the place of a message whose type is not known here, or whose bytes are not what its type says. */
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
  /** `humble`, `noetic`; null when nothing tells. */
  readonly distro: string | null;
  /** Resolves, with the reason, when it no longer answers; after `close` as well. Never rejects. */
  readonly gone: Promise<string>;
  /** Names of nodes as ROS writes them; those it knows of. An adapter that has to ask may answer later, within ROS_ASK_TIMEOUT_MS. */
  nodes(): string[] | Promise<string[]>;
  /** Topics that somebody publishes. */
  topics(): RosTopic[] | Promise<RosTopic[]>;
  /**
   * Hands on each message of the topic until the answer is called; called once per topic at a time. A topic that nobody publishes yet is waited for.
   * Never called back once the adapter is gone.
   */
  subscribe(topic: string, on: (message: RosMessage) => void): Promise<() => void>;
  close(): Promise<void>;
}

/** Within it `nodes`, `topics` and `subscribe` answer, or reject. */
export const ROS_ASK_TIMEOUT_MS = 5_000;

export interface RosAdapterOptions {
  settings: RosSettings;
  clock: Clock;
  log: Logger;
  /** Aborted when the search is given up. */
  signal: AbortSignal;
}

/**
 * Answers an adapter when there is ROS to be reached this way, undefined when there is not (no server listens, no such command, nobody is on the bus):
 * that is the ordinary case, so it is cheap, logs nothing and takes at most ROS_FIND_TIMEOUT_MS. Heavy modules are imported only once it is likely.
 */
export type FindRosAdapter = (options: RosAdapterOptions) => Promise<RosAdapter | undefined>;

export const ROS_FIND_TIMEOUT_MS = 10_000;
