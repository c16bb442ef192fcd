import type {
  Channel,
  Hello,
  LinkChallenge,
  RobotMessage,
  RobotMessageType,
  SendClass,
  ServerMessage,
  Welcome,
} from "@roamfleet/protocol/link";
import type { BoundChannel } from "../kernel/networks.ts";

/** A robot's live link on this node. */
export interface Session {
  readonly session_id: string;
  readonly org_id: string;
  readonly robot_id: string;
  readonly hello: Hello;
  /** Address of the robot. */
  readonly ip: string;
  /** Queues a message. Returns false if the link is closing. Never blocks: a link that does not drain is closed. */
  send(message: ServerMessage): boolean;
  /**
   * Opens a stream to the robot. Rejects with ChannelRefused if the robot does not support it. `send_class` is the priority of the stream
   * relative to other data on the link.
   */
  openChannel(kind: string, send_class: Exclude<SendClass, "control">, params?: unknown): Promise<Channel>;
  /** Number of streams that can still be opened to the robot. */
  readonly channel_room: number;
  /** Stops reading from the robot for `ms`, a few seconds at most. Meanwhile, the robot keeps the data that it has not sent. */
  pauseReading(ms: number): void;
  /** Ends the link with a WebSocket close code. */
  close(code: number, reason: string): void;
}

/** The values that a robot's signature of the challenge must cover, as the server sees the connection. */
export type ExpectedChallenge = Omit<LinkChallenge, "channel"> & BoundChannel;

/**
 * Result of checking a robot's hello. `acked_seq` and `acked_log_seq` are the sequence numbers up to which the robot's reports and logs are
 * acknowledged. The welcome message contains both.
 */
export type Admission =
  | {
      admitted: true;
      org_id: string;
      acked_seq: number;
      acked_log_seq: number;
      /** The key with which the hello was signed. */
      public_key: Buffer;
    }
  | {
      admitted: false;
      code: "unknown_robot" | "bad_signature" | "wrong_host" | "decommissioned" | "held" | "busy" | "unsupported_protocol";
      message: string;
      /** Minimum delay before the robot reconnects. If it is absent, the robot chooses the delay. */
      retry_after_ms?: number;
    };

/**
 * How the plane processes events of robots. The link only handles frames and does not interpret messages. The map of handlers is
 * exhaustive: a message type without a handler does not compile.
 */
export interface LinkHandlers {
  /** Checks the hello's signature over the challenge, the server's host and the TLS channel. `ip` is the robot's address. */
  admit(hello: Hello, expected: ExpectedChallenge, ip: string): Promise<Admission>;
  /** Called after the welcome, with the key of the admission. Records presence, then sends the robot its desired state. */
  connected(session: Session, public_key: Buffer): Promise<void>;
  disconnected(session: Session, reason: string): Promise<void>;
  messages: { [T in Exclude<RobotMessageType, "hello">]: (session: Session, message: Extract<RobotMessage, { type: T }>) => Promise<void> };
}

export interface LinkSettings {
  heartbeat_seconds: number;
  health_seconds: number;
  log_flush_ms: number;
  robots_max: number;
  unauthenticated_links_max: number;
  link_accepts_per_second: number;
}

/** The robots that are connected to this node. */
export interface Link {
  session(robot_id: string): Session | undefined;
  /** Returns all sessions, in no order. */
  sessions(): Iterable<Session>;
  /** Queues a message. Returns false if the robot is not connected to this node. */
  send(robot_id: string, message: ServerMessage): boolean;
  readonly count: number;
  /**
   * Returns the robots that sent data since the last call of this method, each with the time of its last frame. The caller writes the times
   * to the column last_seen_at in batches.
   */
  takeSeen(): Map<string, { org_id: string; at: Date }>;
  /**
   * Closes the links of these robots and asks them to reconnect, to any node. The reconnects are spread over the time that accepting them
   * takes.
   */
  sendAway(sessions: Iterable<Session>, reason: string): void;
  /** Refuses new links, asks every robot to reconnect later, and closes all links. */
  drain(reason: string): Promise<void>;
}

export type { Welcome };
