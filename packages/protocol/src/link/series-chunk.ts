import { deflateRawSync, inflateRawSync } from "node:zlib";
import { CHUNK_BYTES_MAX } from "./limits.ts";

/** One series of a robot. `times` are milliseconds since 1970, in any order; `values` has a value for each of them. */
export interface Series {
  name: string;
  labels: Record<string, string>;
  times: number[];
  values: number[];
}

/** Bounds of one chunk. A robot may send a chunk with more; it is refused. */
export const SERIES_PER_CHUNK_MAX = 1_000;
export const SAMPLES_PER_CHUNK_MAX = 10_000;
export const LABELS_PER_SERIES_MAX = 8;
export const METRIC_NAME_BYTES_MAX = 128;
export const LABEL_VALUE_BYTES_MAX = 128;
/** Maximum bytes of a chunk after decompression. */
const BODY_BYTES_MAX = 512 * 1024;
const TIME_MAX = 2 ** 43;

const VERSION = 1;
/** Values are integers after multiplication by 10 to this power, or, with FLOAT, XOR-coded bits. */
const SCALES = [1, 10, 100, 1_000] as const;
const FLOAT = SCALES.length;
/** Scaled values up to this size have differences that are exact integers. */
const SCALED_MAX = 2 ** 50;

/**
 * Preset dictionary of the compression, which saves the names of system values in each chunk. It is part of the format: changing it needs a
 * new version.
 */
const DICTIONARY = Buffer.from(
  "interfaceeth0wlan0mount/cpu_percentload_1mmemory_used_bytesmemory_total_bytestemperature_celsiusbattery_percentdisk_used_bytesdisk_total_bytesnetwork_receive_bytesnetwork_transmit_bytes",
);

/** A chunk that cannot be decoded or exceeds a bound. */
export class ChunkError extends Error {}

/**
 * Encodes the series of one flush. Times are coded as the difference of differences. Series with the same times store them once. Decimal
 * values with at most three fractional digits are coded as differences of integers, others as the XOR with the preceding value.
 *
 * @throws ChunkError if a bound is exceeded.
 */
export function encodeChunk(series: readonly Series[]): Buffer {
  const timelines = new Map<string, { index: number; times: readonly number[] }>();
  const index_of = series.map(({ times, values }) => {
    if (times.length !== values.length) throw new ChunkError("each time needs one value");
    const key = times.join();
    const known = timelines.get(key) ?? { index: timelines.size, times };
    timelines.set(key, known);
    return known.index;
  });
  requireAtMost(series.length, SERIES_PER_CHUNK_MAX, "series");
  requireAtMost(
    series.reduce((sum, { times }) => sum + times.length, 0),
    SAMPLES_PER_CHUNK_MAX,
    "samples",
  );
  const out = new Output();
  out.byte(VERSION);
  out.unsigned(timelines.size);
  for (const { times } of timelines.values()) writeTimes(out, times);
  out.unsigned(series.length);
  for (const [i, { name, labels, values }] of series.entries()) {
    out.text(name, METRIC_NAME_BYTES_MAX);
    const pairs = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
    requireAtMost(pairs.length, LABELS_PER_SERIES_MAX, "labels");
    out.unsigned(pairs.length);
    for (const [label, value] of pairs) {
      out.text(label, METRIC_NAME_BYTES_MAX);
      out.text(value, LABEL_VALUE_BYTES_MAX);
    }
    out.unsigned(index_of[i] ?? 0);
    writeValues(out, values);
  }
  const packed = deflateRawSync(out.bytes(), { level: 6, dictionary: DICTIONARY });
  requireAtMost(packed.length, CHUNK_BYTES_MAX, "bytes");
  return packed;
}

/**
 * Decodes a chunk. The bytes may come from a hostile robot: memory is bounded by BODY_BYTES_MAX and SAMPLES_PER_CHUNK_MAX.
 *
 * @throws ChunkError if the bytes are no chunk or exceed a bound.
 */
export function decodeChunk(packed: Uint8Array): Series[] {
  requireAtMost(packed.length, CHUNK_BYTES_MAX, "bytes");
  const input = new Input(inflate(packed));
  if (input.byte() !== VERSION) throw new ChunkError("unknown version of a chunk");
  const timeline_count = input.count(SERIES_PER_CHUNK_MAX, "timelines");
  const timelines: number[][] = [];
  let times_left = SAMPLES_PER_CHUNK_MAX;
  for (let i = 0; i < timeline_count; i += 1) {
    const times = readTimes(input, times_left);
    times_left -= times.length;
    timelines.push(times);
  }
  const series: Series[] = [];
  let samples_left = SAMPLES_PER_CHUNK_MAX;
  const series_count = input.count(SERIES_PER_CHUNK_MAX, "series");
  for (let i = 0; i < series_count; i += 1) {
    const name = input.text(METRIC_NAME_BYTES_MAX);
    const pairs: [string, string][] = [];
    for (let left = input.count(LABELS_PER_SERIES_MAX, "labels"); left > 0; left -= 1)
      pairs.push([input.text(METRIC_NAME_BYTES_MAX), input.text(LABEL_VALUE_BYTES_MAX)]);
    const times = timelines[input.unsigned()];
    if (times === undefined) throw new ChunkError("a series has no times");
    samples_left -= times.length;
    if (samples_left < 0) throw new ChunkError("too many samples");
    // `fromEntries` defines own properties, so that a label named __proto__ is only data.
    series.push({ name, labels: Object.fromEntries(pairs), times, values: readValues(input, times.length) });
  }
  if (!input.is_at_end) throw new ChunkError("a chunk has trailing bytes");
  return series;
}

function requireAtMost(count: number, max: number, what: string): void {
  if (count > max) throw new ChunkError(`a chunk may have at most ${max} ${what}, not ${count}`);
}

function inflate(packed: Uint8Array): Buffer {
  try {
    return inflateRawSync(packed, { maxOutputLength: BODY_BYTES_MAX, dictionary: DICTIONARY });
  } catch (error) {
    throw new ChunkError("a chunk cannot be decompressed", { cause: error });
  }
}

function writeTimes(out: Output, times: readonly number[]): void {
  out.unsigned(times.length);
  let [before, step] = [0, 0];
  for (const time of times) {
    if (!Number.isInteger(time) || time < 0 || time >= TIME_MAX) throw new ChunkError("a time is out of range");
    out.signed(time - before - step);
    step = time - before;
    before = time;
  }
}

function readTimes(input: Input, max: number): number[] {
  const times: number[] = [];
  let [before, step] = [0, 0];
  for (let left = input.count(max, "times"); left > 0; left -= 1) {
    step += input.signed();
    before += step;
    if (before < 0 || before >= TIME_MAX) throw new ChunkError("a time is out of range");
    times.push(before);
  }
  return times;
}

function writeValues(out: Output, values: readonly number[]): void {
  const mode = SCALES.findIndex((scale) => values.every((value) => isExact(value, scale)));
  out.byte(mode === -1 ? FLOAT : mode);
  const scale = SCALES[mode];
  if (scale === undefined) return writeFloats(out, values);
  let before = 0;
  for (const value of values) {
    const scaled = Math.round(value * scale);
    out.signed(scaled - before);
    before = scaled;
  }
}

/** Returns whether the value survives being stored as an integer. -0 does not. */
function isExact(value: number, scale: number): boolean {
  const scaled = Math.round(value * scale);
  return Math.abs(scaled) <= SCALED_MAX && scaled / scale === value && !Object.is(value, -0);
}

function readValues(input: Input, count: number): number[] {
  const mode = input.byte();
  if (mode === FLOAT) return readFloats(input, count);
  const scale = SCALES[mode];
  if (scale === undefined) throw new ChunkError("unknown coding of values");
  const values: number[] = [];
  let before = 0;
  for (let left = count; left > 0; left -= 1) {
    before += input.signed();
    values.push(before / scale);
  }
  return values;
}

/** Writes each value as the XOR with the preceding one: a byte with the number of zero bytes at both ends, then the bytes between. */
function writeFloats(out: Output, values: readonly number[]): void {
  const [before, bits] = [new DataView(new ArrayBuffer(8)), new DataView(new ArrayBuffer(8))];
  for (const value of values) {
    bits.setFloat64(0, value);
    const xor = Array.from({ length: 8 }, (_, i) => bits.getUint8(i) ^ before.getUint8(i));
    const first = xor.findIndex((byte) => byte !== 0);
    const last = xor.findLastIndex((byte) => byte !== 0);
    if (first === -1) out.byte(EQUAL);
    else {
      out.byte((first << 4) | (7 - last));
      for (const byte of xor.slice(first, last + 1)) out.byte(byte);
    }
    before.setFloat64(0, value);
  }
}
const EQUAL = 0x80;

function readFloats(input: Input, count: number): number[] {
  const bits = new DataView(new ArrayBuffer(8));
  return Array.from({ length: count }, () => {
    const head = input.byte();
    if (head !== EQUAL) {
      const [first, last] = [head >> 4, 7 - (head & 15)];
      if (first > last) throw new ChunkError("unknown coding of values");
      for (let i = first; i <= last; i += 1) bits.setUint8(i, bits.getUint8(i) ^ input.byte());
    }
    return bits.getFloat64(0);
  });
}

class Output {
  readonly #bytes: number[] = [];

  byte(value: number): void {
    this.#bytes.push(value);
  }

  /** Writes an integer from 0 to 2^53 - 1 with 7 bits for each byte. */
  unsigned(value: number): void {
    for (; value >= 128; value = Math.floor(value / 128)) this.#bytes.push((value % 128) + 128);
    this.#bytes.push(value);
  }

  /** Writes an integer in zigzag coding, so that small negative ones are short too. */
  signed(value: number): void {
    this.unsigned(value < 0 ? -2 * value - 1 : 2 * value);
  }

  text(value: string, bytes_max: number): void {
    const bytes = Buffer.from(value);
    if (bytes.length === 0 || bytes.length > bytes_max) throw new ChunkError(`a name or label needs 1 to ${bytes_max} bytes`);
    this.unsigned(bytes.length);
    this.#bytes.push(...bytes);
  }

  bytes(): Buffer {
    return Buffer.from(this.#bytes);
  }
}

class Input {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get is_at_end(): boolean {
    return this.#at === this.#bytes.length;
  }

  byte(): number {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) throw new ChunkError("a chunk is truncated");
    this.#at += 1;
    return byte;
  }

  unsigned(): number {
    const first = this.byte();
    // Most numbers are differences of one byte.
    if (first < 128) return first;
    let value = first - 128;
    for (let unit = 128; unit < 2 ** 53; unit *= 128) {
      const byte = this.byte();
      value += (byte % 128) * unit;
      if (byte < 128) {
        if (value > Number.MAX_SAFE_INTEGER) break;
        return value;
      }
    }
    throw new ChunkError("a number is out of range");
  }

  signed(): number {
    const value = this.unsigned();
    // Operations on 32-bit integers, which are faster, where they suffice.
    if (value < 2 ** 31) return (value >>> 1) ^ -(value & 1);
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  count(max: number, what: string): number {
    const count = this.unsigned();
    requireAtMost(count, max, what);
    return count;
  }

  text(bytes_max: number): string {
    const length = this.count(bytes_max, "bytes in a name");
    const end = this.#at + length;
    if (length === 0 || end > this.#bytes.length) throw new ChunkError("a name is empty or truncated");
    const text = this.#bytes.toString("utf8", this.#at, end);
    this.#at = end;
    return text;
  }
}
