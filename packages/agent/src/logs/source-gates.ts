import type { Clock, Timer } from "@roamfleet/clock";
import type { LogRecord, LogSink } from "../contract.ts";

/** What one source may write for as long as it likes: a busy robot with many of them still sends less than a camera does. */
export const SOURCE_RECORDS_PER_SECOND = 1_000;
export const SOURCE_BYTES_PER_SECOND = 512 * 1024;
/** And at once, after it was quiet: a stack trace of everything, the start of a large program. A quarter of the spool at most. */
export const SOURCE_RECORDS_BURST = 20_000;
export const SOURCE_BYTES_BURST = 16 * 1024 * 1024;
/** Once records are dropped, the next ones are too until so many may come again: one large gap instead of many small ones. */
const RESUME_RECORDS = 500;
const RESUME_BYTES = 256 * 1024;
/** A source that fell silent is told of after this. */
const TELL_AFTER_MS = 1_000;
/** Sources that are told apart; beyond, they share one gate. */
export const SOURCES_MAX = 1_000;
const OTHERS = "others";
/** What a record takes beside its message. */
const RECORD_BYTES = 128;

interface Gate {
  source: string;
  records: number;
  bytes: number;
  at_ms: number;
  dropped: number;
}

/**
 * Keeps one noisy source from pushing all others out of the spool, which they share: each has a rate and a burst of its own, what is over it is
 * dropped, and a record that names the source says how many were.
 */
export class SourceGates implements LogSink {
  readonly #sink: LogSink;
  readonly #clock: Clock;
  readonly #gates = new Map<string, Gate>();
  #telling: Timer | undefined;

  constructor(sink: LogSink, clock: Clock) {
    this.#sink = sink;
    this.#clock = clock;
  }

  /** Sources that dropped records and have not said so yet. */
  get dropping(): string[] {
    return Array.from(this.#gates.values(), ({ dropped, source }) => (dropped > 0 ? source : "")).filter((source) => source !== "");
  }

  /**
   * `at_ms`: the time that its rate is counted in, milliseconds of any clock, always the same for a source; the robot's own, if absent. What lay
   * somewhere for an hour is then not an hour's records at once. `source`: whose rate it is, if not the record's.
   */
  write(record: LogRecord, at_ms = this.#clock.monotonic(), source = record.source): void {
    const gate = this.#gateOf(source, at_ms);
    refill(gate, at_ms);
    const bytes = record.message.length + RECORD_BYTES;
    const resumed = gate.dropped === 0 || (gate.records >= RESUME_RECORDS && gate.bytes >= RESUME_BYTES);
    if (!resumed || gate.records < 1 || gate.bytes < Math.min(bytes, SOURCE_BYTES_BURST)) return this.drop(source, 1, at_ms);
    this.#tell(gate);
    gate.records -= 1;
    gate.bytes -= bytes;
    this.#sink.write(record);
  }

  /** Whether the source may write now. For a source whose records can wait where they are. */
  hasRoom(source: string, at_ms = this.#clock.monotonic()): boolean {
    const gate = this.#gateOf(source, at_ms);
    refill(gate, at_ms);
    return gate.records >= RESUME_RECORDS && gate.bytes >= RESUME_BYTES;
  }

  /** Counts records that the source had and that were left out. */
  drop(source: string, count: number, at_ms = this.#clock.monotonic()): void {
    this.#gateOf(source, at_ms).dropped += count;
    this.#telling ??= this.#clock.setTimer(TELL_AFTER_MS, () => {
      this.#telling = undefined;
      this.tellAll();
    });
  }

  /** Says what was dropped up to now. */
  tellAll(): void {
    for (const gate of this.#gates.values()) this.#tell(gate);
  }

  close(): void {
    this.#telling?.cancel();
    this.tellAll();
  }

  #tell(gate: Gate): void {
    if (gate.dropped === 0) return;
    const { dropped: count, source } = gate;
    gate.dropped = 0;
    this.#sink.write({
      level: "warn",
      source: "roamfleet",
      message: `${count} records of ${source} dropped: it writes more than ${SOURCE_RECORDS_PER_SECOND} records or ${SOURCE_BYTES_PER_SECOND} bytes a second`,
      fields: { gap: { count }, source },
    });
  }

  #gateOf(source: string, at_ms: number): Gate {
    const known = this.#gates.get(source);
    if (known !== undefined) return known;
    if (this.#gates.size >= SOURCES_MAX) this.#forgetRested(at_ms);
    if (this.#gates.size >= SOURCES_MAX && source !== OTHERS) return this.#gateOf(OTHERS, at_ms);
    const gate = { source, records: SOURCE_RECORDS_BURST, bytes: SOURCE_BYTES_BURST, at_ms, dropped: 0 };
    this.#gates.set(source, gate);
    return gate;
  }

  /** One with all of its burst is as good as none. */
  #forgetRested(at_ms: number): void {
    for (const gate of this.#gates.values()) {
      refill(gate, at_ms);
      if (gate.dropped === 0 && gate.records >= SOURCE_RECORDS_BURST && gate.bytes >= SOURCE_BYTES_BURST) this.#gates.delete(gate.source);
    }
  }
}

function refill(gate: Gate, at_ms: number): void {
  const seconds = Math.max(0, at_ms - gate.at_ms) / 1_000;
  // A clock that was set back goes on from there.
  gate.at_ms = at_ms;
  gate.records = Math.min(SOURCE_RECORDS_BURST, gate.records + seconds * SOURCE_RECORDS_PER_SECOND);
  gate.bytes = Math.min(SOURCE_BYTES_BURST, gate.bytes + seconds * SOURCE_BYTES_PER_SECOND);
}
