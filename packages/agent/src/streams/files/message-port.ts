/** The connection of a file session: a channel, or the pipes of a separate process. Messages are tagged. */
export interface MessagePort {
  /** Returns the next message, or undefined at the end. */
  read(): Promise<Uint8Array | undefined>;
  /** Resolves with true once there was room, with false if the other end is gone. One call at a time. */
  write(message: Uint8Array): Promise<boolean>;
}

/** The other end is gone, so no response can be sent. */
export class PortClosed extends Error {}
