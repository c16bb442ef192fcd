/** As much of a connection to NATS as sending takes. */
export interface Sender {
  publish(subject: string, payload: Uint8Array): void;
  /** Resolves when the server has taken all that was published before. */
  flush(): Promise<void>;
  info?: { max_payload: number };
}

interface Outgoing {
  subject: string;
  payload: Uint8Array;
}

/**
 * Messages on their way out: sent while there is a connection, kept while there is none. Kept and not yet confirmed ones together are
 * bounded, since a server that is frozen takes nothing for as long as its pings are waited for. What the others missed by that, by a
 * connection that broke or because it was too large is owed to them: one announcement, as soon as it can be sent.
 */
export class Outbox {
  readonly #messages_max: number;
  readonly #bytes_max: number;
  readonly #announcement: Outgoing;
  #kept: Outgoing[] = [];
  #unconfirmed = { messages: 0, bytes: 0 };
  /** Kept and unconfirmed. */
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

  /** Messages that are kept or unconfirmed. */
  get size(): number {
    return this.#messages;
  }

  /** Never throws; what finds no room is owed. */
  send(subject: string, payload: Uint8Array): void {
    if (this.#messages >= this.#messages_max || this.#bytes + payload.length > this.#bytes_max) return this.owe();
    const message = { subject, payload };
    this.#messages += 1;
    this.#bytes += payload.length;
    if (!this.#transmit(message)) this.#kept.push(message);
    this.#pay();
    this.#confirm();
  }

  /** The others missed something: they are to read again. */
  owe(): void {
    this.#owed = true;
    this.#pay();
  }

  /** From now on messages go there, those kept first. */
  attach(to: Sender): void {
    this.#to = to;
    this.#kept = this.#kept.filter((message) => !this.#transmit(message));
    this.#pay();
    this.#confirm();
  }

  /** The connection is gone, and with it perhaps what was not confirmed. */
  detach(): void {
    this.#to = undefined;
    this.#confirming = false;
    if (this.#unconfirmed.messages > 0) this.#owed = true;
    this.#forget(this.#unconfirmed);
    this.#unconfirmed = { messages: 0, bytes: 0 };
  }

  /** Whether it is out of our hands: sent, or too large for this server. */
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
      // Closed, and soon detached.
      return false;
    }
    this.#unconfirmed.messages += 1;
    this.#unconfirmed.bytes += payload.length;
    return true;
  }

  /** At most once a round trip, so that a thousand lost messages are a few announcements; and behind what was sent before. */
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
    // Refused when the connection is closed: it is soon detached.
    to.flush().then(confirmed, () => {});
  }

  #forget({ messages, bytes }: { messages: number; bytes: number }): void {
    this.#messages -= messages;
    this.#bytes -= bytes;
  }
}
