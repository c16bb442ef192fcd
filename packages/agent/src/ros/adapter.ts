/** The interface of every way to reach the ROS of a robot. The bridge (bridge.ts) finds the adapters that answer; all other code uses the bridge. */
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { createConnection } from "node:net";
import type { RosAdapterName } from "../config-file/robot-config.ts";
import type { RosSettings } from "./settings.ts";
import { errorText } from "../disk/write-atomically.ts";

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
  signal: AbortSignal;
}

/**
 * Returns an adapter if ROS is reachable this way, otherwise undefined (no server listens, no such command, no participant on the bus). The latter is
 * the usual case: it is cheap, logs nothing and takes at most ROS_FIND_TIMEOUT_MS. Heavy modules are imported only once success is likely.
 */
export type FindRosAdapter = (options: RosAdapterOptions) => Promise<RosAdapter | undefined>;

/** Includes a list of the `ros2` command, which is slow on a small computer. */
export const ROS_FIND_TIMEOUT_MS = 30_000;

/** The largest message that is accepted, with room for an uncompressed 4K image. */
export const ROS_MESSAGE_BYTES_MAX = 64 * 1024 * 1024;

const CONNECT_MS_MAX = 3_000;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { "http:": 80, "ws:": 80, "https:": 443, "wss:": 443 };

/** Returns this machine's address on the route to a server; undefined if the server does not accept a connection. */
export function addressTowards(url: string, clock: Clock, signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    if (signal.aborted || !URL.canParse(url)) return resolve(undefined);
    const { protocol, hostname, port } = new URL(url);
    const socket = createConnection({
      host: hostname.replace(/^\[|\]$/g, ""),
      port: port === "" ? (DEFAULT_PORTS[protocol] ?? 80) : Number(port),
    });
    const end = (): void => {
      timer.cancel();
      signal.removeEventListener("abort", end);
      resolve(socket.readyState === "open" ? socket.localAddress : undefined);
      socket.destroy();
    };
    const timer = clock.setTimer(CONNECT_MS_MAX, end);
    signal.addEventListener("abort", end, { once: true });
    socket.once("connect", end).once("error", end);
  });
}

/** May throw: an UndecodedMessage then replaces the message. */
export type Decode = (bytes: Uint8Array) => unknown;

/** A message that is decoded once, on first access; it becomes an UndecodedMessage if it cannot be decoded. */
export class LazyMessage implements RosMessage {
  readonly type: string;
  readonly at: Date;
  #bytes: Uint8Array | undefined;
  readonly #decode: Decode;
  #message: unknown;

  constructor(type: string, at: Date, bytes: Uint8Array, decode: Decode) {
    this.type = type;
    this.at = at;
    this.#bytes = bytes;
    this.#decode = decode;
  }

  get message(): unknown {
    const bytes = this.#bytes;
    if (bytes === undefined) return this.#message;
    this.#bytes = undefined;
    try {
      this.#message = this.#decode(bytes);
    } catch (error) {
      this.#message = new UndecodedMessage(bytes, `its bytes do not match its type (${errorText(error)})`);
    }
    return this.#message;
  }
}
