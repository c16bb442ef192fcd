import type { CacheChange, SequenceNumber, SequenceNumberSet } from "@foxglove/rtps";

/** Messages that came before one that is missing; beyond, the missing one is given up. */
const AHEAD_MAX = 1_024;
/** What one acknowledgement can ask for. */
const ASKED_MAX = 256;
const WRITERS_MAX = 4_096;

interface FromWriter {
  /** Everything up to here has come or is not waited for any more. */
  low: SequenceNumber;
  /** What came beyond. */
  ahead: Set<SequenceNumber>;
}

/** For the library's class of numbers that are asked for. */
export type MakeSet = (base: SequenceNumber, bits: number) => SequenceNumberSet;

/**
 * Which messages of its writers a reader has. Takes the place of the library's history, which keeps an entry for each message of a best-effort
 * writer for ever, walks through a gap number by number, and mixes the numbers of two writers of one process.
 */
export class Received {
  readonly depth = 0;
  readonly #writers = new Map<string, FromWriter>();
  readonly #context: { writer: string };
  readonly #make_set: MakeSet;

  /** `context.writer` is whose heartbeat is being dealt with: the library does not say. */
  constructor(context: { writer: string }, make_set: MakeSet) {
    this.#context = context;
    this.#make_set = make_set;
  }

  has(writer: string, sequence: SequenceNumber): boolean {
    const from = this.#writers.get(writer);
    return from !== undefined && (sequence <= from.low || from.ahead.has(sequence));
  }

  /** The writer is no more. */
  forget(writer: string): void {
    this.#writers.delete(writer);
  }

  set({ writerGuid, sequenceNumber }: Pick<CacheChange, "writerGuid" | "sequenceNumber">): void {
    const from = this.#from(writerGuid);
    if (sequenceNumber <= from.low) return;
    from.ahead.add(sequenceNumber);
    // Half of it at once: to look for the least each time costs 100 µs a message.
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

  /** What the writer of the context has between these and the reader has not; base 0: there is nothing to be said. */
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

/** Moves the mark over what has come without a hole. */
function settle(from: FromWriter): void {
  while (from.ahead.delete(from.low + 1n)) from.low += 1n;
}

/** Nothing up to there is waited for any more. */
function jump(from: FromWriter, low: SequenceNumber): void {
  from.low = low;
  for (const one of from.ahead) if (one <= low) from.ahead.delete(one);
}
