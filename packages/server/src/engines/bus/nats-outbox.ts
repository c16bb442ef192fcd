/** The methods of a NATS connection that the outbox needs. */
export interface Sender {
  publish(subject: string, payload: Uint8Array): void;
  /** Resolves when the server has received all earlier messages. */
  flush(): Promise<void>;
  info?: { max_payload: number };
}

interface Outgoing {
  subject: string;
  payload: Uint8Array;
}

/**
 * Queue of outgoing messages: sends them while connected and buffers them otherwise. One limit covers buffered and unconfirmed messages,
 * because sent messages also accumulate while a server is frozen, until its pings time out. A message is lost if the limit is exceeded,
 * the connection breaks or the message is too large. The other nodes then get one gap announcement as soon as it can be sent.
 */
export class Outbox {
  readonly #messages_max: number;
  readonly #bytes_max: number;
  readonly #announcement: Outgoing;
  #kept: Outgoing[] = [];
  #unconfirmed = { messages: 0, bytes: 0 };
  /** Number of buffered and unconfirmed messages. */
  #messages = 0;
  #bytes = 0;
  #to: Sender | undefined;
  #confirming = false;
  #owed = false;

  constructor(options: { messages_max: number; bytes_max: number; announcement: Outgoing }) {
    this.#messages_max = options.messages_max;
    this.#bytes_max = options.bytes_max;
    this.#announcement = options.announcement;
  }

  /** Number of messages that are buffered or unconfirmed. */
  get size(): number {
    return this.#messages;
  }

  /** Sends or buffers a message. Drops it if the limit is reached, and announces a gap. Never throws. */
  send(subject: string, payload: Uint8Array): void {
    if (this.#messages >= this.#messages_max || this.#bytes + payload.length > this.#bytes_max) return this.owe();
    const message = { subject, payload };
    this.#messages += 1;
    this.#bytes += payload.length;
    if (!this.#transmit(message)) this.#kept.push(message);
    this.#pay();
    this.#confirm();
  }

  /** Announces a gap: the other nodes must read the database again. */
  owe(): void {
    this.#owed = true;
    this.#pay();
  }

  /** Sends messages over this connection from now on, the buffered ones first. */
  attach(to: Sender): void {
    this.#to = to;
    this.#kept = this.#kept.filter((message) => !this.#transmit(message));
    this.#pay();
    this.#confirm();
  }

  /** Stops using a closed connection. Unconfirmed messages may be lost, so a gap is announced on the next connection. */
  detach(): void {
    this.#to = undefined;
    this.#confirming = false;
    if (this.#unconfirmed.messages > 0) this.#owed = true;
    this.#forget(this.#unconfirmed);
    this.#unconfirmed = { messages: 0, bytes: 0 };
  }

  /** Sends a message. Returns false if it must stay buffered, and true if it was sent or is too large for the server and was dropped. */
  #transmit({ subject, payload }: Outgoing): boolean {
    if (this.#to === undefined) return false;
    if (payload.length > (this.#to.info?.max_payload ?? Number.POSITIVE_INFINITY)) {
      this.#forget({ messages: 1, bytes: payload.length });
      this.#owed = true;
      return true;
    }
    try {
      this.#to.publish(subject, payload);
    } catch {
      // The connection is closed; `detach` follows.
      return false;
    }
    this.#unconfirmed.messages += 1;
    this.#unconfirmed.bytes += payload.length;
    return true;
  }

  /** Announces a pending gap. Sends at most one announcement per round trip, so thousands of lost messages cause only a few. */
  #pay(): void {
    if (!this.#owed || this.#to === undefined || this.#confirming) return;
    this.#owed = false;
    this.#messages += 1;
    this.#bytes += this.#announcement.payload.length;
    if (!this.#transmit(this.#announcement)) {
      this.#forget({ messages: 1, bytes: this.#announcement.payload.length });
      this.#owed = true;
    }
    this.#confirm();
  }

  #confirm(): void {
    const to = this.#to;
    if (to === undefined || this.#confirming || this.#unconfirmed.messages === 0) return;
    const asked = { ...this.#unconfirmed };
    const confirmed = (): void => {
      if (this.#to !== to) return;
      this.#confirming = false;
      this.#unconfirmed.messages -= asked.messages;
      this.#unconfirmed.bytes -= asked.bytes;
      this.#forget(asked);
      this.#pay();
      this.#confirm();
    };
    this.#confirming = true;
    // Rejects if the connection is closed; `detach` follows.
    to.flush().then(confirmed, () => {});
  }

  #forget({ messages, bytes }: { messages: number; bytes: number }): void {
    this.#messages -= messages;
    this.#bytes -= bytes;
  }
}
