import type * as Rtps from "@foxglove/rtps";
import type {
  CacheChange,
  EndpointAttributesWithTopic,
  EntityId,
  Participant,
  ParticipantView,
  Reader,
  SequenceNumber,
  SequenceNumberSet,
  SubscribeOpts,
  UserData,
  WriterView,
} from "@foxglove/rtps";
import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText } from "../../disk/write-atomically.ts";
import { boundFragments, DDS_MESSAGE_BYTES_MAX, type DisposedEntity, PARTICIPANT_WRITER, screenDatagram } from "./datagram.ts";
import { ddsAddresses, DdsSocket } from "./sockets.ts";

/** Interval of announcements. The agent's lease is 10 s: other participants drop it if it does not announce itself within that time. */
const ANNOUNCE_MS = 3_000;
/**
 * Minimum time without a datagram after which a participant counts as gone. It applies even if the participant's lease is shorter, since
 * some participants renew late.
 */
const LEASE_MS_MIN = 20_000;
const TIDY_MS = 1_000;
/**
 * Maximum messages of one writer that are reassembled at the same time. FRAGMENTED_ROUNDS_MAX limits the cleanup rounds in which a message
 * makes no progress; after that, the message is dropped.
 */
const FRAGMENTED_MAX = 4;
const FRAGMENTED_ROUNDS_MAX = 10;
/** Maximum number of participants. Real networks have fewer, so any further participants are forged. */
const PARTICIPANTS_MAX = 1_000;
/** Minimum interval in milliseconds between two logged warnings of the library. */
const FAILURE_LOG_MS = 60_000;

interface DdsParticipantOptions {
  domain_id: number;
  localhost_only: boolean;
  clock: Clock;
  log: Logger;
  /** Called with each message of a topic, without duplicates. */
  received: (data: UserData) => void;
  /** Called when an endpoint or a participant appears or disappears. */
  changed: () => void;
}

/** Internal methods of the library that are used here. They may change with its version, which is therefore pinned. */
interface Inside {
  handleHeartbeat: (guid_prefix: string, heartbeat: { writerEntityId: EntityId }) => void;
  handlePublication: (parameters: Uint8Array, timestamp: unknown) => unknown;
}

/**
 * A participant in a DDS domain that only listens. It wraps the library's participant and protects it against invalid input (see
 * datagram.ts and `Received`).
 */
export class DdsParticipant {
  readonly #options: DdsParticipantOptions;
  readonly #rtps: typeof Rtps;
  readonly #participant: Participant;
  readonly #inside: Inside;
  readonly #participants: Map<string, ParticipantView>;
  /** When the last datagram of each participant arrived, on the monotonic clock. */
  readonly #heard = new Map<string, number>();
  /** The messages that each reader has received. */
  readonly #received = new Map<EntityId, Received>();
  readonly #context = { writer: "" };
  /** For each incomplete message: the number of missing fragments, and the cleanup rounds since that number last changed. */
  #stuck = new WeakMap<object, { remaining: number; rounds: number }>();
  #timers: Timer[] = [];
  #failure_logged_at = -Infinity;

  static async start(options: DdsParticipantOptions): Promise<DdsParticipant> {
    const dds = new DdsParticipant(options, await import("@foxglove/rtps"));
    await dds.#start();
    return dds;
  }

  private constructor(options: DdsParticipantOptions, rtps: typeof Rtps) {
    this.#options = options;
    this.#rtps = rtps;
    const addresses = ddsAddresses(options.localhost_only);
    const create = (): Promise<DdsSocket> =>
      Promise.resolve(new DdsSocket({ addresses, screen: (bytes) => this.#screen(bytes), failed: (error) => this.#failed(error) }));
    this.#participant = new rtps.Participant({
      name: "roamfleet",
      addresses,
      domainId: options.domain_id,
      udpSocketCreate: create,
    });
    this.#inside = this.#participant as unknown as Inside;
    this.#participants = Reflect.get(this.#participant, "_participants") as Map<string, ParticipantView>;
    const handle = this.#inside.handleHeartbeat;
    this.#inside.handleHeartbeat = (guid_prefix, heartbeat) => {
      this.#context.writer = rtps.makeGuid(guid_prefix, heartbeat.writerEntityId);
      handle(guid_prefix, heartbeat);
    };
    boundFragments(this.#participant);
    const publish = this.#inside.handlePublication;
    this.#inside.handlePublication = (parameters, timestamp) => publish(withReliability(parameters, rtps), timestamp);
    this.#participant.on("error", (error) => this.#failed(error));
    this.#participant.on("userData", (data) => this.#take(data));
    this.#participant.on("discoveredParticipant", ({ guidPrefix }) => {
      this.#heard.set(guidPrefix, options.clock.monotonic());
      this.#countReceived();
      options.changed();
    });
    this.#participant.on("discoveredPublication", () => {
      this.#countReceived();
      options.changed();
    });
  }

  writers(): EndpointAttributesWithTopic[] {
    return this.#participant.topicWriters();
  }

  /** Subscribes to a topic. Returns a function that ends the subscription. */
  subscribe(options: SubscribeOpts): () => void {
    const reader = this.#participant.subscribe(options);
    this.#countReceived();
    return () => {
      this.#received.delete(reader);
      if (this.#participant.running) this.#participant.unsubscribe(reader);
    };
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) timer.cancel();
    this.#timers = [];
    if (this.#participant.running) await this.#participant.shutdown();
  }

  async #start(): Promise<void> {
    const { clock } = this.#options;
    try {
      await this.#participant.start();
    } catch (error) {
      await this.close();
      throw error;
    }
    const announce = (): Promise<void> => this.#participant.broadcastParticipant(this.#participant.attributes);
    this.#timers = [clock.every(ANNOUNCE_MS, announce), clock.every(TIDY_MS, () => this.#tidy())];
  }

  #screen(bytes: Uint8Array): boolean {
    const datagram = screenDatagram(bytes);
    if (datagram === undefined) return false;
    const { guid_prefix, disposed } = datagram;
    if (this.#heard.has(guid_prefix)) this.#heard.set(guid_prefix, this.#options.clock.monotonic());
    else if (this.#heard.size >= PARTICIPANTS_MAX) return false;
    // This datagram announces the end of the entity. Remove the entity after the library has processed the datagram.
    if (disposed.length > 0) queueMicrotask(() => disposed.forEach((entity) => this.#leave(entity, guid_prefix)));
    return true;
  }

  /** Removes a participant or endpoint that has announced its end, if the sender owns it. */
  #leave({ writer, guid }: DisposedEntity, guid_prefix: string): void {
    if (!guid.startsWith(guid_prefix)) return;
    if (writer === PARTICIPANT_WRITER) return this.#forget(guid_prefix);
    const participant = this.#participants.get(guid_prefix);
    const [, entity] = this.#rtps.guidParts(guid);
    if (participant?.remoteWriters.delete(entity) !== true) return;
    participant.remoteWriterIdToLocalReaderIds.delete(entity);
    participant.writerIdToDataFragments.delete(entity);
    for (const received of this.#received.values()) received.forget(guid);
    this.#options.changed();
  }

  #forget(guid_prefix: string): void {
    const participant = this.#participants.get(guid_prefix);
    this.#heard.delete(guid_prefix);
    if (participant === undefined) return;
    const writers: WriterView[] = Array.from(participant.remoteWriters.values());
    for (const received of this.#received.values()) for (const writer of writers) received.forget(writer.guid());
    this.#participants.delete(guid_prefix);
    this.#options.changed();
  }

  /** Replaces the library's message history by a `Received` in all readers that still have the library's. */
  #countReceived(): void {
    const make: MakeSet = (base, bits) => new this.#rtps.SequenceNumberSet(base, bits);
    for (const participant of this.#participants.values()) {
      for (const [id, reader] of participant.localReaders) {
        if (reader.history instanceof Received) continue;
        const own = isBuiltin(id) ? new Received(this.#context, make) : (this.#received.get(id) ?? new Received(this.#context, make));
        if (!isBuiltin(id)) this.#received.set(id, own);
        (reader as { history: Reader["history"] | Received }).history = own;
      }
    }
  }

  #take(data: UserData): void {
    const writer = this.#rtps.makeGuid(data.publication.guidPrefix, data.publication.entityId);
    // This is a duplicate: the writer sent the message again before our acknowledgement arrived.
    if (this.#received.get(data.subscription.entityId)?.has(writer, data.writerSeqNumber) === true) return;
    if (data.serializedData.length <= DDS_MESSAGE_BYTES_MAX) this.#options.received(data);
  }

  #tidy(): void {
    const now = this.#options.clock.monotonic();
    for (const [guid_prefix, participant] of this.#participants) {
      const lease_ms = participant.attributes.leaseDuration.sec * 1_000;
      if (now - (this.#heard.get(guid_prefix) ?? now) > Math.max(LEASE_MS_MIN, lease_ms)) this.#forget(guid_prefix);
      else this.#tidyFragments(participant);
    }
  }

  /**
   * Drops incomplete messages that make no progress. For a best-effort writer, the library would wait for the missing fragments forever.
   */
  #tidyFragments(participant: ParticipantView): void {
    for (const [writer, messages] of participant.writerIdToDataFragments) {
      let kept = messages.size;
      // Drop the oldest message first. The map's order is the order in which the messages began.
      for (const [sequence, message] of messages) {
        const before = this.#stuck.get(message);
        const stands = before !== undefined && before.remaining === message.remainingFragments;
        const rounds = stands ? before.rounds + 1 : 0;
        this.#stuck.set(message, { remaining: message.remainingFragments, rounds });
        if (kept <= FRAGMENTED_MAX && rounds < FRAGMENTED_ROUNDS_MAX) continue;
        participant.removeFragments(writer, sequence);
        kept -= 1;
      }
    }
  }

  #failed(error: unknown): void {
    const now = this.#options.clock.monotonic();
    if (now - this.#failure_logged_at < FAILURE_LOG_MS) return;
    this.#failure_logged_at = now;
    this.#options.log.warn({ reason: errorText(error) }, "a DDS message could not be processed");
  }
}

/** Size of the header before a parameter list. The header's second byte is the kind of the list. */
const ENCAPSULATION_BYTES = 4;
const LITTLE_ENDIAN_LIST = 3;
/**
 * The 32-bit words of a PID_RELIABILITY parameter: a placeholder for its header, the kind `reliable`, and a blocking time of 0 s and 0.1 s
 * (as a fraction of 2^32).
 */
const RELIABLE_PARAMETER = [0, 2, 0, 0x19999999];

/**
 * Adds reliability to the announcement of a writer that states none. Cyclone omits the reliability of reliable writers, and the library
 * ignores writers that state none.
 */
function withReliability(parameters: Uint8Array, rtps: typeof Rtps): Uint8Array {
  const given = rtps.ParametersView.FromCdr(parameters);
  if (given === undefined || given.reliability() !== undefined || given.topicName() === undefined) return parameters;
  const little = parameters[1] === LITTLE_ENDIAN_LIST;
  const longer = new Uint8Array(parameters.length + 4 * RELIABLE_PARAMETER.length);
  longer.set(parameters.subarray(0, ENCAPSULATION_BYTES));
  longer.set(parameters.subarray(ENCAPSULATION_BYTES), ENCAPSULATION_BYTES + 4 * RELIABLE_PARAMETER.length);
  const view = new DataView(longer.buffer, ENCAPSULATION_BYTES);
  RELIABLE_PARAMETER.forEach((word, i) => view.setUint32(4 * i, word, little));
  // The first word of the parameter consists of two 16-bit numbers: its id and its length.
  view.setUint16(0, 0x001a, little);
  view.setUint16(2, 0x000c, little);
  return longer;
}

/** Returns whether an entity is one of those that DDS uses for discovery: the two highest bits of its kind are set. */
const isBuiltin = (entity: EntityId): boolean => (entity & 0xc0) === 0xc0;

/** Maximum messages received after a missing one. Beyond this, missing messages are no longer requested. */
const AHEAD_MAX = 1_024;
/** Maximum messages that one acknowledgement can request. */
const ASKED_MAX = 256;
const WRITERS_MAX = 4_096;

interface FromWriter {
  /** Watermark: all messages up to this number were received or are no longer requested. */
  low: SequenceNumber;
  /** Numbers of the messages that were received after a missing one. */
  ahead: Set<SequenceNumber>;
}

/** Creates the set of message numbers that an acknowledgement requests, in the library's format. */
type MakeSet = (base: SequenceNumber, bits: number) => SequenceNumberSet;

/**
 * Tracks which messages of each writer a reader has received. It replaces the library's history, which has three defects. The library
 * stores an entry for each message of a best-effort writer forever. It iterates over a gap number by number. It confuses the numbers of two
 * writers in one process.
 */
export class Received {
  readonly depth = 0;
  readonly #writers = new Map<string, FromWriter>();
  readonly #context: { writer: string };
  readonly #make_set: MakeSet;

  /** `context.writer` must be the writer of the heartbeat that is being processed. The library does not pass it to `heartbeatUpdate`. */
  constructor(context: { writer: string }, make_set: MakeSet) {
    this.#context = context;
    this.#make_set = make_set;
  }

  has(writer: string, sequence: SequenceNumber): boolean {
    const from = this.#writers.get(writer);
    return from !== undefined && (sequence <= from.low || from.ahead.has(sequence));
  }

  forget(writer: string): void {
    this.#writers.delete(writer);
  }

  set({ writerGuid, sequenceNumber }: Pick<CacheChange, "writerGuid" | "sequenceNumber">): void {
    const from = this.#from(writerGuid);
    if (sequenceNumber <= from.low) return;
    from.ahead.add(sequenceNumber);
    // Advance past half of the stored numbers in one step, since searching for the minimum at each message would take 100 µs.
    if (from.ahead.size > AHEAD_MAX) jump(from, Array.from(from.ahead).toSorted((a, b) => (a < b ? -1 : 1))[AHEAD_MAX / 2] ?? 0n);
    settle(from);
  }

  addGapRange(start: SequenceNumber, end: SequenceNumber, _timestamp: unknown, writer: string): void {
    const from = this.#from(writer);
    if (start <= from.low + 1n) {
      if (end > from.low) jump(from, end);
    } else {
      for (let sequence = start; sequence <= end && sequence - start < BigInt(ASKED_MAX); sequence += 1n) from.ahead.add(sequence);
    }
    settle(from);
  }

  /**
   * Returns which messages in this range the reader lacks, for the writer in the context. A set with base 0 means that no acknowledgement
   * is needed.
   */
  heartbeatUpdate(first: SequenceNumber, last: SequenceNumber): SequenceNumberSet {
    const from = this.#from(this.#context.writer);
    if (first - 1n > from.low) jump(from, first - 1n);
    settle(from);
    if (last < first) return this.#make_set(last === 0n ? 0n : last + 1n, 0);
    if (last <= from.low) return this.#make_set(last + 1n, 0);
    const bits = last - from.low > BigInt(ASKED_MAX) ? ASKED_MAX : Number(last - from.low);
    const set = this.#make_set(from.low + 1n, bits);
    for (let i = 1n; i <= BigInt(bits); i += 1n) if (!from.ahead.has(from.low + i)) set.add(from.low + i);
    return set;
  }

  #from(writer: string): FromWriter {
    let from = this.#writers.get(writer);
    if (from === undefined) {
      if (this.#writers.size >= WRITERS_MAX) this.#writers.clear();
      from = { low: 0n, ahead: new Set() };
      this.#writers.set(writer, from);
    }
    return from;
  }
}

/** Advances the watermark over all received messages that directly follow it. */
function settle(from: FromWriter): void {
  while (from.ahead.delete(from.low + 1n)) from.low += 1n;
}

/** Advances the watermark to `low`. Missing messages up to there are no longer requested. */
function jump(from: FromWriter, low: SequenceNumber): void {
  from.low = low;
  for (const one of from.ahead) if (one <= low) from.ahead.delete(one);
}
