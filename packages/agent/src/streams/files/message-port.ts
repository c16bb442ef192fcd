/** Where a session of files hears and speaks: a channel, or the pipes of a process of its own. Messages are tagged. */
export interface MessagePort {
  /** The next message, or undefined when there are no more. */
  read(): Promise<Uint8Array | undefined>;
  /** Resolves with true once there was room, with false when nobody listens any more. One at a time. */
  write(message: Uint8Array): Promise<boolean>;
}

/** Nobody listens any more: there is nobody to be told either. */
export class PortClosed extends Error {}
