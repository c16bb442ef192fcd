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
import type { BoundChannel } from "../kernel/channel.ts";

/** One live link of one robot on this node. */
export interface Session {
  readonly session_id: string;
  readonly org_id: string;
  readonly robot_id: string;
  readonly hello: Hello;
  /** Address of the robot's end. */
  readonly ip: string;
  /** Queues a message; false when the link is closing. Never blocks: a link that does not drain is cut. */
  send(message: ServerMessage): boolean;
  /**
   * Opens a stream at the robot; rejects with ChannelRefused when the robot does not have it. The class is its priority
   * among everything else on the link.
   */
  openChannel(kind: string, send_class: Exclude<SendClass, "control">, params?: unknown): Promise<Channel>;
  /** How many more streams can be opened at the robot. */
  readonly channel_room: number;
  /** Stops reading from the robot for so long, a few seconds at most: what it sends stays at its end. */
  pauseReading(ms: number): void;
  /** Ends the link with a WebSocket close code. */
  close(code: number, reason: string): void;
}

/** What the answer to a challenge must have been signed for, as the server sees the connection. */
export type ExpectedChallenge = Omit<LinkChallenge, "channel"> & BoundChannel;

/** What the robot is told at once when it is let in. */
export type Admission =
  | { admitted: true; org_id: string; acked_seq: number; acked_log_seq: number }
  | {
      admitted: false;
      code: "unknown_robot" | "bad_signature" | "wrong_host" | "decommissioned" | "held" | "busy" | "unsupported_protocol";
      message: string;
      /** It is not to come back sooner; absent: as it sees fit. */
      retry_after_ms?: number;
    };

/**
 * What the plane does with robots; the link knows frames, and nothing of what they mean. The map of handlers is
 * exhaustive: a message type without one does not compile.
 */
export interface LinkHandlers {
  /** Checks the hello's signature over the challenge, the server's host and the TLS channel; `ip` is the robot's address. */
  admit(hello: Hello, expected: ExpectedChallenge, ip: string): Promise<Admission>;
  /** The robot was welcomed: presence first, then what it is to be told. */
  connected(session: Session): Promise<void>;
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

/** The robots whose link this node holds. */
export interface Link {
  session(robot_id: string): Session | undefined;
  /** All of them, in no order. */
  sessions(): Iterable<Session>;
  /** True when the message was queued for a robot of this node. */
  send(robot_id: string, message: ServerMessage): boolean;
  readonly count: number;
  /** Robots that have been heard since the last call, with the time: flushed to last_seen_at in batches. */
  takeSeen(): Map<string, { org_id: string; at: Date }>;
  /** Tells these robots to come back, to whichever node, spread over the time that it takes to accept them; and closes. */
  sendAway(sessions: Iterable<Session>, reason: string): void;
  /** Refuses new links, tells every robot to come back later, and closes. */
  drain(reason: string): Promise<void>;
}

export type { Welcome };
