import type { CacheChange, SequenceNumber, SequenceNumberSet } from "@foxglove/rtps";

/** Maximum messages received after a missing one; beyond this, the missing one is no longer requested. */
const AHEAD_MAX = 1_024;
/** Maximum messages that one acknowledgement can request. */
const ASKED_MAX = 256;
const WRITERS_MAX = 4_096;

interface FromWriter {
  /** Watermark: everything up to here was received or is no longer requested. */
  low: SequenceNumber;
  /** Messages received beyond the watermark. */
  ahead: Set<SequenceNumber>;
}

/** Creates the library's set of requested numbers. */
export type MakeSet = (base: SequenceNumber, bits: number) => SequenceNumberSet;

/**
 * Tracks which messages of its writers a reader has. Replaces the library's history, which keeps an entry for each message of a best-effort writer
 * forever, iterates over a gap number by number, and mixes the numbers of two writers of one process.
 */
export class Received {
  readonly depth = 0;
  readonly #writers = new Map<string, FromWriter>();
  readonly #context: { writer: string };
  readonly #make_set: MakeSet;

  /** `context.writer` is the writer of the current heartbeat: the library does not pass it. */
  constructor(context: { writer: string }, make_set: MakeSet) {
    this.#context = context;
    this.#make_set = make_set;
  }

  has(writer: string, sequence: SequenceNumber): boolean {
    const from = this.#writers.get(writer);
    return from !== undefined && (sequence <= from.low || from.ahead.has(sequence));
  }

  /** Removes a writer that is gone. */
  forget(writer: string): void {
    this.#writers.delete(writer);
  }

  set({ writerGuid, sequenceNumber }: Pick<CacheChange, "writerGuid" | "sequenceNumber">): void {
    const from = this.#from(writerGuid);
    if (sequenceNumber <= from.low) return;
    from.ahead.add(sequenceNumber);
    // Drops half of them in one step: finding the minimum for each message costs 100 µs.
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

  /** Returns the messages between these numbers that the reader lacks, of the context's writer; base 0: no acknowledgement is needed. */
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

/** Advances the watermark over messages without a gap. */
function settle(from: FromWriter): void {
  while (from.ahead.delete(from.low + 1n)) from.low += 1n;
}

/** Advances the watermark: messages up to there are no longer requested. */
function jump(from: FromWriter, low: SequenceNumber): void {
  from.low = low;
  for (const one of from.ahead) if (one <= low) from.ahead.delete(one);
}
