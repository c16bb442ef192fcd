import type * as Rtps from "@foxglove/rtps";
import type {
  EndpointAttributesWithTopic,
  EntityId,
  Participant,
  ParticipantView,
  Reader,
  SubscribeOpts,
  UserData,
  WriterView,
} from "@foxglove/rtps";
import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText } from "../../disk/write-atomically.ts";
import { DDS_MESSAGE_BYTES_MAX, type DisposedEntity, PARTICIPANT_WRITER, screenDatagram } from "./datagram.ts";
import { boundFragments } from "./fragments.ts";
import { type MakeSet, Received } from "./received.ts";
import { ddsAddresses, DdsSocket } from "./sockets.ts";

/** Other participants drop one that does not announce itself within its lease of 10 s. */
const ANNOUNCE_MS = 3_000;
/** A participant is gone after its lease, but not before this time: some renew late. */
const LEASE_MS_MIN = 20_000;
const TIDY_MS = 1_000;
/** Messages of one writer that are reassembled at a time, and cleanup rounds after which one without progress is dropped. */
const FRAGMENTED_MAX = 4;
const FRAGMENTED_ROUNDS_MAX = 10;
/** Maximum participants; a network has more only if they are forged. */
const PARTICIPANTS_MAX = 1_000;
/** The library's warnings are logged at most once in this time. */
const FAILURE_LOG_MS = 60_000;

export interface DdsParticipantOptions {
  domain_id: number;
  localhost_only: boolean;
  clock: Clock;
  log: Logger;
  /** Receives each message of a topic once. */
  received: (data: UserData) => void;
  /** Called when an endpoint or a participant appears or disappears. */
  changed: () => void;
}

/** Internals of the library that are used here; the version is pinned. */
interface Inside {
  handleHeartbeat: (guid_prefix: string, heartbeat: { writerEntityId: EntityId }) => void;
  handlePublication: (parameters: Uint8Array, timestamp: unknown) => unknown;
}

/** A participant in a DDS domain that only listens: the library's, with protection against invalid input (see datagram.ts and received.ts). */
export class DdsParticipant {
  readonly #options: DdsParticipantOptions;
  readonly #rtps: typeof Rtps;
  readonly #participant: Participant;
  readonly #inside: Inside;
  readonly #participants: Map<string, ParticipantView>;
  /** When each was last heard, on the monotonic clock. */
  readonly #heard = new Map<string, number>();
  /** By reader. */
  readonly #received = new Map<EntityId, Received>();
  readonly #context = { writer: "" };
  /** Cleanup rounds without progress of a message, and its missing fragments. */
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

  /** Returns all writers in the domain. */
  writers(): EndpointAttributesWithTopic[] {
    return this.#participant.topicWriters();
  }

  /** Returns a function that ends the subscription. */
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
    // The participant is removed once the library has processed its disposal, too.
    if (disposed.length > 0) queueMicrotask(() => disposed.forEach((entity) => this.#leave(entity, guid_prefix)));
    return true;
  }

  /** Removes a disposed participant or endpoint, if it belongs to the sender. */
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

  /** Replaces the history of new readers by our own. */
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
    // Sent again while an acknowledgement was in transit.
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

  /** Drops incomplete messages without progress: the library waits forever for missing fragments of a best-effort message. */
  #tidyFragments(participant: ParticipantView): void {
    for (const [writer, messages] of participant.writerIdToDataFragments) {
      let kept = messages.size;
      // In the order in which they began.
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

/** A parameter list begins after it; its second byte is the kind of the list. */
const ENCAPSULATION_BYTES = 4;
const LITTLE_ENDIAN_LIST = 3;
/** PID_RELIABILITY: its head, reliable, 0 s, 0.1 s as a fraction of 2^32. */
const RELIABLE_PARAMETER = [0, 2, 0, 0x19999999];

/** Adds the default reliability to a writer that announces none. Cyclone omits it for reliable writers, and the library ignores such writers. */
function withReliability(parameters: Uint8Array, rtps: typeof Rtps): Uint8Array {
  const given = rtps.ParametersView.FromCdr(parameters);
  if (given === undefined || given.reliability() !== undefined || given.topicName() === undefined) return parameters;
  const little = parameters[1] === LITTLE_ENDIAN_LIST;
  const longer = new Uint8Array(parameters.length + 4 * RELIABLE_PARAMETER.length);
  longer.set(parameters.subarray(0, ENCAPSULATION_BYTES));
  longer.set(parameters.subarray(ENCAPSULATION_BYTES), ENCAPSULATION_BYTES + 4 * RELIABLE_PARAMETER.length);
  const view = new DataView(longer.buffer, ENCAPSULATION_BYTES);
  RELIABLE_PARAMETER.forEach((word, i) => view.setUint32(4 * i, word, little));
  // The first word consists of two 16-bit numbers.
  view.setUint16(0, 0x001a, little);
  view.setUint16(2, 0x000c, little);
  return longer;
}

/** Returns whether an entity is one of those used for discovery, by the two highest bits of its kind. */
const isBuiltin = (entity: EntityId): boolean => (entity & 0xc0) === 0xc0;
