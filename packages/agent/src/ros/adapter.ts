/**
 * The interface of all ROS adapters. Each adapter connects to a robot's ROS in a different way. The bridge (bridge.ts) finds the adapters
 * that answer, and all other code uses the bridge.
 */
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { createConnection } from "node:net";
import type { RosAdapterName } from "../config-file/robot-config.ts";
import type { RosSettings } from "./settings.ts";
import { errorText } from "../disk/write-atomically.ts";

export type { RosAdapterName };

export interface RosTopic {
  /** Name of the topic as ROS writes it, for example `/camera/image/compressed`. */
  name: string;
  /** Type of the topic as ROS writes it, for example `std_msgs/msg/String` in ROS 2 and `std_msgs/String` in ROS 1. */
  type: string;
}

export interface RosMessage {
  type: string;
  /** Time at which the message was published. If the adapter does not receive that time, the time at which the message arrived. */
  at: Date;
  /**
   * The decoded message, or an UndecodedMessage if it cannot be decoded. It consists of objects, arrays, typed arrays, and bigint for
   * 64-bit integers; NaN and infinities are unchanged. An adapter may decode it on first access, so that unused messages cost no decoding.
   */
  readonly message: unknown;
}

/** Takes the place of a message that cannot be decoded: its type is unknown, or its bytes do not match its type. */
export class UndecodedMessage {
  readonly bytes: Uint8Array;
  /** Text for people: why the message was not decoded, and how to solve that. */
  readonly reason: string;

  constructor(bytes: Uint8Array, reason: string) {
    this.bytes = bytes;
    this.reason = reason;
  }
}

export interface RosAdapter {
  readonly name: RosAdapterName;
  /** Name of the ROS distribution, for example `humble` or `noetic`; null if unknown. */
  readonly distro: string | null;
  /** Resolves with a reason when the adapter stops answering or was closed. Never rejects. */
  readonly gone: Promise<string>;
  /**
   * Returns the names of all known nodes, as ROS writes them. If the adapter has to query the names, this takes up to ROS_ASK_TIMEOUT_MS.
   */
  nodes(): string[] | Promise<string[]>;
  /** Returns the topics that have a publisher. */
  topics(): RosTopic[] | Promise<RosTopic[]>;
  /**
   * Calls `on` with each message of the topic until the returned function is called. The topic may have no publisher yet. The caller must
   * not have more than one subscription per topic. `on` is never called once the adapter is gone.
   */
  subscribe(topic: string, on: (message: RosMessage) => void): Promise<() => void>;
  close(): Promise<void>;
}

/** Time limit of an adapter's `nodes`, `topics` and `subscribe` methods. */
export const ROS_ASK_TIMEOUT_MS = 5_000;

export interface RosAdapterOptions {
  settings: RosSettings;
  clock: Clock;
  log: Logger;
  signal: AbortSignal;
}

/**
 * Searches for ROS in one way and returns an adapter. Returns undefined if there is no ROS: no server listens, the command does not exist,
 * or DDS has no participant. That is the usual case, so a search must be cheap, log nothing and take at most ROS_FIND_TIMEOUT_MS. Heavy
 * modules are imported only once success is likely.
 */
export type FindRosAdapter = (options: RosAdapterOptions) => Promise<RosAdapter | undefined>;

/** Time limit of a search for an adapter. It allows for the `ros2` command, which is slow on a small computer. */
export const ROS_FIND_TIMEOUT_MS = 30_000;

/** Maximum bytes of a message that an adapter accepts. An uncompressed 4K image fits. */
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

/** Decodes the bytes of a message. If it throws, the message is replaced by an UndecodedMessage. */
export type Decode = (bytes: Uint8Array) => unknown;

/** A message that is decoded once, on first access. If that fails, its content is an UndecodedMessage. */
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
      this.#message = new UndecodedMessage(bytes, `the bytes of the message do not match its type (${errorText(error)})`);
    }
    return this.#message;
  }
}
