import { randomBytes } from "node:crypto";
import type { connect, Msg, NatsConnection, NodeConnectionOptions, Subscription } from "@nats-io/transport-node";
import { type Activity, type Clock, type Timer, within } from "@roamfleet/clock";
import type { JsonValue } from "@roamfleet/protocol";
import type { EngineLog } from "../log.ts";
import type { Bus, BusListener } from "./bus.ts";
import { localBus, type LocalBus } from "./local-bus.ts";
import { greets, type NatsAddress, natsSubject } from "./nats-address.ts";
import { Outbox } from "./nats-outbox.ts";

export interface NatsBusOptions {
  address: NatsAddress;
  clock: Clock;
  log: EngineLog;
  activity?: Activity | undefined;
  /** Called with the connection state at the start and after every change. */
  onConnected?: (connected: boolean) => void;
  /** Maximum message size in bytes. NATS' own limit, 1 MiB by default, applies too. */
  message_bytes_max?: number;
  /** Maximum outgoing messages that are buffered, or sent but not yet confirmed. */
  outgoing_messages_max?: number;
  ping_every_ms?: number;
}

/** Maximum message size in bytes. No message is that large, because one transaction changes at most 800 KB. */
const MESSAGE_BYTES_MAX = 1_000_000;
const OUTGOING_MESSAGES_MAX = 10_000;
const OUTGOING_BYTES_MAX = 16 * 1024 ** 2;
/** Interval of pings. The third ping in a row without a response closes the connection, which detects a frozen server in 10 to 15 s. */
const PING_EVERY_MS = 5_000;
const PINGS_MISSED_MAX = 2;
const CONNECT_TIMEOUT_MS = 5_000;
/** First delay before a reconnect. It doubles each time. Up to half is subtracted at random, so that nodes reconnect at different times. */
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 5_000;
/** After a connection that lasted this long, the next reconnect starts with the shortest delay again. */
const STABLE_MS = 10_000;
/** Minimum interval between reported gaps. It keeps readers from reloading all the time. */
const GAP_EVERY_MS = 1_000;
/** Timeout for NATS to confirm subscriptions. Callers then continue, and a gap is reported when the confirmation arrives. */
const SUBSCRIBE_TIMEOUT_MS = 2_000;
/** Time to flush the last messages when the bus is closed. */
const CLOSE_FLUSH_MS = 1_000;
/** Maximum distinct server errors to log per connection. */
const COMPLAINTS_MAX = 20;

type State = "connected" | "unreachable" | "refused";
type Dial = typeof connect;

interface Heard {
  listeners: number;
  subscription: Subscription | undefined;
}

/**
 * Creates a bus between several nodes on NATS core. Subscribers in this process receive messages through a local bus, even while NATS is
 * disconnected. Other nodes receive them through NATS, which does not send our own messages back. Messages of different publishers have no
 * common order. Returns before NATS is connected: it connects in the background, and reconnects after each disconnect.
 */
export async function natsBus(options: NatsBusOptions): Promise<Bus> {
  // Loaded on demand: it takes 70 ms and 2 MB of heap, which a single server does not need.
  const { connect: dial } = await import("@nats-io/transport-node");
  return new NatsBus(dial, options);
}

export class NatsBus implements Bus {
  /** Sender id in all messages of this bus. It detects our own messages, which NATS could send back after a reconnect. */
  readonly #id = randomBytes(9).toString("base64url");
  readonly #dial: Dial;
  readonly #options: NatsBusOptions;
  readonly #log: EngineLog;
  readonly #gap_subject: string;
  readonly #local: LocalBus;
  readonly #outbox: Outbox;
  readonly #heard = new Map<string, Heard>();
  readonly #ending = new AbortController();
  #connection: NatsConnection | undefined;
  #state: State | undefined;
  #gap_wait: Timer | undefined;
  #gap_due = false;
  #closing: Promise<void> | undefined;

  constructor(dial: Dial, options: NatsBusOptions) {
    this.#dial = dial;
    this.#options = options;
    this.#log = options.log;
    this.#gap_subject = `${options.address.prefix}.gap`;
    this.#local = localBus(options);
    this.#outbox = new Outbox({
      messages_max: options.outgoing_messages_max ?? OUTGOING_MESSAGES_MAX,
      bytes_max: OUTGOING_BYTES_MAX,
      announcement: { subject: this.#gap_subject, payload: encode({ from: this.#id }) },
    });
    options.onConnected?.(false);
    void this.#run();
  }

  get connected(): boolean {
    return this.#state === "connected";
  }

  publish(subject: string, message: JsonValue): void {
    if (this.#ending.signal.aborted) return;
    this.#local.publish(subject, message);
    const payload = encode({ from: this.#id, message });
    if (payload.length <= (this.#options.message_bytes_max ?? MESSAGE_BYTES_MAX))
      return this.#outbox.send(natsSubject(this.#options.address.prefix, subject), payload);
    this.#log.warn({ subject, bytes: payload.length }, "a message is too large for the bus: other servers read from the database instead");
    this.#outbox.owe();
  }

  subscribe(subject: string, listener: BusListener): () => void {
    const endLocal = this.#local.subscribe(subject, listener);
    const heard = this.#heard.get(subject) ?? { listeners: 0, subscription: undefined };
    this.#heard.set(subject, heard);
    heard.listeners += 1;
    if (heard.listeners === 1) this.#listen(subject, heard);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      endLocal();
      heard.listeners -= 1;
      if (heard.listeners > 0) return;
      this.#heard.delete(subject);
      heard.subscription?.unsubscribe();
    };
  }

  async subscribed(): Promise<void> {
    const connection = this.#connection;
    // While disconnected, `subscribed` need not wait: each new connection reports a gap when the subscriptions are active.
    if (connection === undefined || !this.connected) return;
    let late = false;
    const confirmed = connection.flush().then(
      () => {
        if (late) this.#gap();
      },
      () => {},
    );
    await within(this.#options.clock, SUBSCRIBE_TIMEOUT_MS, confirmed, this.#ending.signal);
    late = true;
  }

  onGap(listener: () => void): () => void {
    return this.#local.onGap(listener);
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#ending.abort();
    this.#gap_wait?.cancel();
    const connection = this.#connection;
    await this.#local.close();
    if (connection === undefined) return;
    await within(
      this.#options.clock,
      CLOSE_FLUSH_MS,
      connection.flush().catch(() => {}),
    );
    await connection.close();
  }

  /** Connects until `close`. The client's own reconnect is not used: it waits until a frozen server accepts all pending writes. */
  async #run(): Promise<void> {
    const { clock, address } = this.#options;
    const { signal } = this.#ending;
    let failures = 0;
    for (let turn = Math.floor(clock.random() * address.servers.length); !signal.aborted; turn += 1) {
      const server = address.servers[turn % address.servers.length];
      const since = clock.monotonic();
      const connection = server && (await this.#connect(server));
      if (connection !== undefined) await this.#serve(connection);
      failures = connection !== undefined && clock.monotonic() - since > STABLE_MS ? 0 : failures + 1;
      const wait = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** Math.min(failures, 10));
      await clock.sleep(wait * (0.5 + clock.random() / 2), signal);
    }
  }

  async #connect(server: NatsAddress["servers"][number]): Promise<NatsConnection | undefined> {
    const { address, clock, ping_every_ms: pingInterval = PING_EVERY_MS } = this.#options;
    const options: NodeConnectionOptions = {
      servers: [server.host.includes(":") ? `[${server.host}]:${server.port}` : `${server.host}:${server.port}`],
      name: "roamfleet",
      reconnect: false,
      noEcho: true,
      ignoreClusterUpdates: true,
      timeout: CONNECT_TIMEOUT_MS,
      pingInterval,
      maxPingOut: PINGS_MISSED_MAX,
      ...address.credentials,
      ...(address.tls ? { tls: {} } : {}),
    };
    try {
      await greets(server, { clock, timeout_ms: CONNECT_TIMEOUT_MS, signal: this.#ending.signal });
      return await this.#dial(options);
    } catch (error) {
      this.#away(error);
      return undefined;
    }
  }

  /** Resolves when the connection is closed. */
  async #serve(connection: NatsConnection): Promise<void> {
    // The bus was closed while this connection was being established.
    if (this.#ending.signal.aborted) return connection.close();
    this.#connection = connection;
    void this.#watch(connection);
    // Sends all subscriptions before the first await, so that no message after the connect is missed.
    this.#subscribe(this.#gap_subject, () => this.#gap());
    for (const [subject, heard] of this.#heard) this.#listen(subject, heard);
    this.#outbox.attach(connection);
    connection.flush().then(
      () => this.#arrived(connection),
      () => {},
    );
    const error = await connection.closed();
    this.#connection = undefined;
    this.#outbox.detach();
    for (const heard of this.#heard.values()) heard.subscription = undefined;
    this.#away(error);
  }

  #arrived(connection: NatsConnection): void {
    if (this.#connection !== connection || this.#ending.signal.aborted) return;
    this.#become("connected", () => this.#log.info({ server: connection.getServer() }, "the bus is connected"));
    // Reports a gap, because messages published while disconnected were missed.
    this.#gap();
  }

  #away(error: unknown): void {
    const reason = error instanceof Error ? error.message : "the connection ended";
    const refused = error instanceof Error && (error.name === "AuthorizationError" || error.name === "UserAuthenticationExpiredError");
    if (refused) this.#become("refused", () => this.#log.error({ reason }, "the bus refuses the credentials in ROAMFLEET_BUS_URL"));
    else this.#become("unreachable", () => this.#log.warn({ reason }, "the bus is unreachable: updates from other servers are delayed"));
  }

  #become(state: State, say: () => void): void {
    if (this.#state === state || this.#ending.signal.aborted) return;
    const before = this.connected;
    this.#state = state;
    if (this.connected !== before) this.#options.onConnected?.(this.connected);
    say();
  }

  async #watch(connection: NatsConnection): Promise<void> {
    const complaints = new Set<string>();
    for await (const status of connection.status()) {
      if (status.type === "staleConnection") void connection.close();
      if (status.type !== "error" || this.#ending.signal.aborted) continue;
      const reason = status.error.message;
      if (complaints.size < COMPLAINTS_MAX && !complaints.has(reason)) this.#log.warn({ reason }, "the bus reported an error");
      complaints.add(reason);
      this.#gap();
    }
  }

  #listen(subject: string, heard: Heard): void {
    heard.subscription = this.#subscribe(natsSubject(this.#options.address.prefix, subject), ({ message }) => {
      if (message !== undefined) this.#local.publish(subject, message);
    });
  }

  #subscribe(nats_subject: string, take: (envelope: Envelope) => void): Subscription | undefined {
    try {
      return this.#connection?.subscribe(nats_subject, { callback: (error, message) => this.#hear(error, message, take) });
    } catch {
      // The connection was closed in the meantime. `#serve` subscribes again on the next connection.
      return undefined;
    }
  }

  #hear(error: Error | null, message: Msg, take: (envelope: Envelope) => void): void {
    // The server refused the subscription. `#watch` logs this.
    if (error !== null) return;
    const envelope = decode(message);
    if (envelope === undefined) {
      this.#log.debug?.({ subject: message.subject }, "ignored a malformed message of the bus");
      this.#gap();
    } else if (envelope.from !== this.#id) take(envelope);
  }

  /** Reports a gap immediately. Further gaps within GAP_EVERY_MS are coalesced into one report at the end of that interval. */
  #gap(): void {
    this.#gap_due = true;
    if (this.#gap_wait !== undefined || this.#ending.signal.aborted) return;
    this.#gap_due = false;
    this.#local.lose();
    this.#gap_wait = this.#options.clock.setTimer(GAP_EVERY_MS, () => {
      this.#gap_wait = undefined;
      if (this.#gap_due) this.#gap();
    });
  }
}

interface Envelope {
  /** Id of the sending bus. */
  from: string;
  /** The published message. If absent, this announces a gap: other nodes missed a message. */
  message?: JsonValue;
}

const encode = (envelope: Envelope): Uint8Array => Buffer.from(JSON.stringify(envelope));

function decode(message: Msg): Envelope | undefined {
  try {
    const envelope = message.json<Partial<Envelope> | null>();
    return typeof envelope?.from === "string" ? (envelope as Envelope) : undefined;
  } catch {
    return undefined;
  }
}
