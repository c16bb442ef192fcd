/**
 * Limits the memory of the RTPS library for fragmented messages. For any sender, it allocates a list as long as the announced message, and keeps the
 * whole datagram of each fragment.
 */
import type { EntityId, Participant, ParticipantView } from "@foxglove/rtps";

/** Maximum messages that are reassembled at a time, of all writers, and their announced bytes. */
export const FRAGMENTED_MESSAGES_MAX = 64;
export const FRAGMENTED_BYTES_MAX = 64 * 1024 * 1024;

/** Internals of the library that are used here; the version is pinned. */
export interface FragmentsInside {
  handleDataFrag: (guid_prefix: string, fragment: Fragment) => void;
}

type Participants = ReadonlyMap<string, ParticipantView>;

interface Fragment {
  readerEntityId: EntityId;
  writerEntityId: EntityId;
  writerSeqNumber: bigint;
  /** Bytes of the whole message. */
  sampleSize: number;
  fragmentSize: number;
  fragmentStartingNum: number;
  fragments: Uint8Array[];
  effectiveTimestamp: unknown;
}

/**
 * Drops fragments of unknown writers, and those of messages without room. A writer's older incomplete messages are evicted first: a best-effort
 * writer continues when a fragment is lost, and a reliable one sends again.
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

/** Evicts older messages of the writer. Returns whether a message of so many bytes may begin. */
function makeRoom(participants: Participants, sender: ParticipantView, writer: EntityId, bytes: number): boolean {
  let [count, sum] = [1, bytes];
  for (const { writerIdToDataFragments } of participants.values())
    for (const messages of writerIdToDataFragments.values())
      for (const { totalBytes } of messages.values()) {
        count += 1;
        sum += totalBytes;
      }
  const fits = (): boolean => count <= FRAGMENTED_MESSAGES_MAX && sum <= FRAGMENTED_BYTES_MAX;
  // In the order in which they began.
  for (const [sequence, { totalBytes }] of sender.writerIdToDataFragments.get(writer) ?? []) {
    if (fits()) break;
    sender.removeFragments(writer, sequence);
    count -= 1;
    sum -= totalBytes;
  }
  return fits();
}
