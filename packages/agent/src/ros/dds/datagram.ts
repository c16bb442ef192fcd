/**
 * Validates each datagram before the RTPS library receives it, since the library trusts its input. In the library, a wrong length causes an
 * uncaught exception. A heartbeat that covers 2^60 messages causes an endless loop. Data with inline QoS gets a payload that starts at the
 * wrong offset. Any host on the network can send such datagrams.
 */
import { Buffer } from "node:buffer";
import type { EntityId, Participant, ParticipantView } from "@foxglove/rtps";

const HEADER_BYTES = 20;
const SUBMESSAGE_HEADER_BYTES = 4;
const SUBMESSAGES_MAX = 1_024;
/** Maximum bytes of a message that is reassembled from fragments. */
export const DDS_MESSAGE_BYTES_MAX = 32 * 1024 * 1024;
/** Minimum bytes of a fragment. DDS implementations use about 1 KiB or more, and the most common ones on robots use 64 KiB. */
const FRAGMENT_BYTES_MIN = 256;
/**
 * Maximum fragments of one message: the library allocates a list of that length at the first fragment. With fragments of 1 KiB, even the
 * largest message has fewer.
 */
const FRAGMENTS_MAX = 40_000;
/** Maximum number of messages that a heartbeat may cover. The library loops over all of them, which takes milliseconds for this many. */
const HEARTBEAT_RANGE_MAX = 65_536n;
const SET_BITS_MAX = 256;

const PAD = 0x01;
const ACKNACK = 0x06;
const HEARTBEAT = 0x07;
const GAP = 0x08;
const INFO_TS = 0x09;
const INFO_DST = 0x0e;
const NACK_FRAG = 0x12;
const HEARTBEAT_FRAG = 0x13;
const DATA = 0x15;
const DATA_FRAG = 0x16;

const FLAG_LITTLE_ENDIAN = 0x01;
const FLAG_INLINE_QOS = 0x02;
const FLAG_INVALIDATE = 0x02;
const FLAG_DATA = 0x04;

/** The minimum length in bytes of the body of each submessage type. */
const BODY_BYTES_MIN: Readonly<Record<number, number>> = {
  [PAD]: 0,
  [ACKNACK]: 24,
  [HEARTBEAT]: 28,
  [GAP]: 28,
  [INFO_TS]: 8,
  [INFO_DST]: 12,
  [NACK_FRAG]: 32,
  [HEARTBEAT_FRAG]: 24,
  [DATA]: 20,
  [DATA_FRAG]: 32,
};

const PID_SENTINEL = 0x0001;
const PID_PARTICIPANT_GUID = 0x0050;
const PID_ENDPOINT_GUID = 0x005a;
const PID_KEY_HASH = 0x0070;
const PID_STATUS_INFO = 0x0071;
const STATUS_DISPOSED = 0x01;
const STATUS_UNREGISTERED = 0x02;

export const PARTICIPANT_WRITER = 0x0100c2;
export const PUBLICATIONS_WRITER = 0x0003c2;

/** A participant or endpoint that has announced its end. */
export interface DisposedEntity {
  /**
   * The built-in writer that announced the end. PARTICIPANT_WRITER: the entity is a participant; PUBLICATIONS_WRITER: it is an endpoint.
   */
  writer: number;
  /** Id of the entity, 32 hex digits: 24 for the participant, then 8 for the endpoint. */
  guid: string;
}

interface Datagram {
  /** Id of the participant that sent the datagram, 24 hex digits. */
  guid_prefix: string;
  disposed: DisposedEntity[];
}

/** Validates a datagram, and replaces inline QoS by padding in place. Returns undefined if the library must not receive the datagram. */
export function screenDatagram(bytes: Uint8Array): Datagram | undefined {
  if (bytes.length < HEADER_BYTES || bytes[0] !== 0x52 || bytes[1] !== 0x54 || bytes[2] !== 0x50 || bytes[3] !== 0x53) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const disposed: DisposedEntity[] = [];
  let count = 0;
  for (let offset = HEADER_BYTES; offset < bytes.length; count += 1) {
    if (offset + SUBMESSAGE_HEADER_BYTES > bytes.length || count >= SUBMESSAGES_MAX) return undefined;
    const submessage = readHeader(view, offset);
    const length = submessage.end - offset - SUBMESSAGE_HEADER_BYTES;
    if (submessage.end > bytes.length || length < (BODY_BYTES_MIN[submessage.id] ?? 0) || !isSound(submessage)) return undefined;
    if (submessage.id === DATA || submessage.id === DATA_FRAG) {
      const entity = takeInlineQos(submessage);
      if (entity === "broken") return undefined;
      if (entity !== undefined) disposed.push(entity);
    }
    offset = submessage.end;
  }
  return { guid_prefix: hex(view, 8, 12), disposed };
}

interface Submessage {
  view: DataView;
  id: number;
  offset: number;
  flags: number;
  little: boolean;
  /** Offset of the next submessage. */
  end: number;
}

function readHeader(view: DataView, offset: number): Submessage {
  let id = view.getUint8(offset);
  const flags = view.getUint8(offset + 1);
  const little = (flags & FLAG_LITTLE_ENDIAN) !== 0;
  // This flag means that the submessage has no timestamp, but the library would read the following bytes as one. Turn the submessage into
  // padding.
  if (id === INFO_TS && (flags & FLAG_INVALIDATE) !== 0) view.setUint8(offset, (id = PAD));
  let length = view.getUint16(offset + 2, little);
  // In the last submessage, a length of 0 means "to the end". The library does not support that, so write the real length.
  const rest = view.byteLength - offset - SUBMESSAGE_HEADER_BYTES;
  if (length === 0 && id !== PAD && id !== INFO_TS && rest <= 0xffff) view.setUint16(offset + 2, (length = rest), little);
  return { view, id, offset, flags, little, end: offset + SUBMESSAGE_HEADER_BYTES + length };
}

/** Returns whether the library can process the numbers in a submessage without a long loop or a large buffer. */
function isSound(submessage: Submessage): boolean {
  const { view, id, offset, little, end } = submessage;
  const sequence = (at: number): bigint =>
    BigInt(view.getInt32(offset + at, little)) * 0x1_0000_0000n + BigInt(view.getUint32(offset + at + 4, little));
  const bits = (at: number): boolean => {
    const count = view.getUint32(offset + at, little);
    return count <= SET_BITS_MAX && offset + at + 4 + 4 * Math.ceil(count / 32) <= end;
  };
  switch (id) {
    case HEARTBEAT:
      return sequence(12) >= 0n && sequence(20) - sequence(12) < HEARTBEAT_RANGE_MAX;
    case ACKNACK:
      return sequence(12) >= 0n && bits(20);
    case GAP:
      return sequence(12) >= 0n && bits(28);
    case NACK_FRAG:
      return bits(24);
    case DATA:
      return view.getUint16(offset + 6, little) === 16;
    case DATA_FRAG:
      return view.getUint16(offset + 6, little) === 28 && areFragmentsSound(submessage);
    default:
      return true;
  }
}

function areFragmentsSound({ view, offset, little, flags, end }: Submessage): boolean {
  const [start, count] = [view.getUint32(offset + 24, little), view.getUint16(offset + 28, little)];
  const [size, total] = [view.getUint16(offset + 30, little), view.getUint32(offset + 32, little)];
  if (size < FRAGMENT_BYTES_MIN || total > DDS_MESSAGE_BYTES_MAX || start < 1 || count < 1 || total > size * FRAGMENTS_MAX) return false;
  const first = (start - 1) * size;
  const bytes = Math.min(count * size, total - first);
  // With inline QoS the payload is shorter than computed here, so `takeInlineQos` checks its length instead.
  return first < total && (count - 1) * size < total - first && ((flags & FLAG_INLINE_QOS) !== 0 || offset + 36 + bytes <= end);
}

/**
 * Replaces the inline QoS before a payload by padding: header, QoS, payload become a PAD submessage as long as the QoS, then header and
 * payload. Returns the entity whose end the QoS announces.
 */
function takeInlineQos(submessage: Submessage): DisposedEntity | "broken" | undefined {
  const { view, id, offset, flags, little, end } = submessage;
  if ((flags & FLAG_INLINE_QOS) === 0) return undefined;
  const header_bytes = id === DATA ? 24 : 36;
  const parameters = readParameters(view, offset + header_bytes, end, little);
  if (parameters === undefined) return "broken";
  const status = parameters.found.get(PID_STATUS_INFO);
  const over = status !== undefined && status.length >= 4 && (view.getUint8(status.at + 3) & (STATUS_DISPOSED | STATUS_UNREGISTERED)) !== 0;
  const writer = view.getUint32(offset + 12, false);
  const has_data = (flags & FLAG_DATA) !== 0 || id === DATA_FRAG;
  const entity = over && id === DATA ? disposedEntityOf(view, writer, parameters, end) : undefined;
  // Without a payload, leave the QoS in place. The library parses the QoS as a payload, finds no known field in it, and correctly counts
  // the message as received.
  if (!has_data) return entity;
  const qos_bytes = parameters.end - (offset + header_bytes);
  const header = Uint8Array.prototype.slice.call(new Uint8Array(view.buffer, view.byteOffset + offset, header_bytes));
  view.setUint8(offset, PAD);
  view.setUint16(offset + 2, qos_bytes - SUBMESSAGE_HEADER_BYTES, little);
  const moved = offset + qos_bytes;
  new Uint8Array(view.buffer, view.byteOffset + moved, header_bytes).set(header);
  view.setUint8(moved + 1, flags & ~FLAG_INLINE_QOS);
  view.setUint16(moved + 2, end - moved - SUBMESSAGE_HEADER_BYTES, little);
  return entity;
}

interface Parameters {
  found: Map<number, { at: number; length: number }>;
  end: number;
}

function readParameters(view: DataView, start: number, end: number, little: boolean): Parameters | undefined {
  const found: Parameters["found"] = new Map();
  for (let at = start; at + 4 <= end;) {
    const [id, length] = [view.getUint16(at, little), view.getUint16(at + 2, little)];
    if (id === PID_SENTINEL) return { found, end: at + 4 };
    if (length % 4 !== 0 || at + 4 + length > end) return undefined;
    found.set(id, { at: at + 4, length });
    at += 4 + length;
  }
  return undefined;
}

function disposedEntityOf(view: DataView, writer: number, inline: Parameters, end: number): DisposedEntity | undefined {
  if (writer !== PARTICIPANT_WRITER && writer !== PUBLICATIONS_WRITER) return undefined;
  const wanted = writer === PARTICIPANT_WRITER ? PID_PARTICIPANT_GUID : PID_ENDPOINT_GUID;
  let key = inline.found.get(PID_KEY_HASH);
  // The key is either plain (a parameter list) or a hash. The hash of a GUID is the GUID itself.
  if (inline.end + 4 <= end) {
    const list = readParameters(view, inline.end + 4, end, view.getUint8(inline.end + 1) === 3);
    key = list?.found.get(wanted) ?? key;
  }
  return key === undefined || key.length < 16 ? undefined : { writer, guid: hex(view, key.at, 16) };
}

const hex = (view: DataView, at: number, length: number): string => Buffer.from(view.buffer, view.byteOffset + at, length).toString("hex");

/**
 * The functions below limit the memory that the RTPS library uses for fragmented messages. Without limits, any sender can make the library
 * allocate a list of any length. The library also keeps the whole datagram of each fragment.
 */

/**
 * Maximum messages of all writers that are reassembled at the same time. FRAGMENTED_BYTES_MAX limits the sum of their announced lengths.
 */
export const FRAGMENTED_MESSAGES_MAX = 64;
export const FRAGMENTED_BYTES_MAX = 64 * 1024 * 1024;

/** Internal methods of the library that are used here. They may change with its version, which is therefore pinned. */
export interface FragmentsInside {
  handleDataFrag: (guid_prefix: string, fragment: Fragment) => void;
}

type Participants = ReadonlyMap<string, ParticipantView>;

interface Fragment {
  readerEntityId: EntityId;
  writerEntityId: EntityId;
  writerSeqNumber: bigint;
  /** Total bytes of the message that the fragment belongs to. */
  sampleSize: number;
  fragmentSize: number;
  fragmentStartingNum: number;
  fragments: Uint8Array[];
  effectiveTimestamp: unknown;
}

/**
 * Drops fragments of unknown writers, and of messages for which there is no room. To make room, it evicts older incomplete messages of the
 * same writer. This is harmless: a best-effort writer continues with later messages, and a reliable one sends the evicted message again.
 */
export function boundFragments(participant: Participant): void {
  const inside = participant as unknown as FragmentsInside;
  const participants = Reflect.get(participant, "_participants") as Participants;
  const handle = inside.handleDataFrag;
  inside.handleDataFrag = (guid_prefix, fragment) => {
    const { readerEntityId, writerEntityId, writerSeqNumber, sampleSize, fragmentSize, fragmentStartingNum, effectiveTimestamp } = fragment;
    const sender = participants.get(guid_prefix);
    if (sender === undefined || !sender.remoteWriters.has(writerEntityId)) return;
    const begun = sender.tryGetFragments(writerEntityId, writerSeqNumber) !== undefined;
    if (!begun && !makeRoom(participants, sender, writerEntityId, sampleSize)) return;
    const ids = { readerEntityId, writerEntityId, writerSeqNumber };
    const fragments = fragment.fragments.map((bytes) => bytes.slice());
    handle(guid_prefix, { ...ids, sampleSize, fragmentSize, fragmentStartingNum, effectiveTimestamp, fragments });
  };
}

/** Evicts older messages of the writer until a new message of this size fits within the limits. Returns whether it fits. */
function makeRoom(participants: Participants, sender: ParticipantView, writer: EntityId, bytes: number): boolean {
  let [count, sum] = [1, bytes];
  for (const { writerIdToDataFragments } of participants.values())
    for (const messages of writerIdToDataFragments.values())
      for (const { totalBytes } of messages.values()) {
        count += 1;
        sum += totalBytes;
      }
  const fits = (): boolean => count <= FRAGMENTED_MESSAGES_MAX && sum <= FRAGMENTED_BYTES_MAX;
  // Evict the oldest message first. The map's order is the order in which the messages began.
  for (const [sequence, { totalBytes }] of sender.writerIdToDataFragments.get(writer) ?? []) {
    if (fits()) break;
    sender.removeFragments(writer, sequence);
    count -= 1;
    sum -= totalBytes;
  }
  return fits();
}
