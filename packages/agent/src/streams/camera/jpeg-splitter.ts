import { CAMERA_FRAME_BYTES_MAX } from "@roamfleet/protocol/link";

const MARKER = 0xff;
const SOI = 0xd8;
const EOI = 0xd9;
const SOS = 0xda;
/** Markers that are no segment: TEM and the restart markers RST0 to RST7. */
const isBare = (code: number): boolean => code === 0x01 || (code >= 0xd0 && code <= 0xd7);

/** Where in a picture the next byte is. */
type Place =
  /** Between pictures: whatever is no SOI is left out, such as the headers of a multipart body. */
  | "outside"
  /** A marker has to come. */
  | "marker"
  /** After the 0xff of a marker, which may be repeated. */
  | "code"
  | "length_high"
  | "length_low"
  /** Within a segment's payload, which may hold a whole other JPEG (a thumbnail). */
  | "payload"
  /** Within compressed data, where 0xff 0x00 is a byte 0xff. */
  | "data"
  | "data_code";

/**
 * Takes a stream of JPEGs apart, by their markers and not by a search for the last one: the payload of a segment may hold any bytes.
 * Pictures may be divided anyhow over the chunks and have anything without 0xff 0xd8 between them. A broken one is left out, and so is
 * one over the bound, of which no more than that is ever kept.
 */
export class JpegSplitter {
  readonly #emit: (jpeg: Uint8Array) => void;
  readonly #refused: () => void;
  readonly #bytes_max: number;
  #place: Place = "outside";
  #ff = false;
  #left = 0;
  /** The segment is the last before compressed data. */
  #scan = false;
  #parts: Uint8Array[] = [];
  #bytes = 0;

  /** `refused` is called for each that is over `bytes_max`. */
  constructor(emit: (jpeg: Uint8Array) => void, refused: () => void = () => {}, bytes_max: number = CAMERA_FRAME_BYTES_MAX) {
    this.#bytes_max = bytes_max;
    this.#emit = emit;
    this.#refused = refused;
  }

  /** The chunk may be reused afterwards: what is kept of it is copied. */
  push(chunk: Uint8Array): void {
    /** Where the part of the picture begins that is in this chunk. */
    let start = 0;
    for (let at = 0; at < chunk.length;) {
      if (this.#place === "outside") {
        at = this.#findStart(chunk, at);
        start = at;
      } else if (this.#place === "payload") {
        const taken = Math.min(this.#left, chunk.length - at);
        this.#left -= taken;
        at += taken;
        if (this.#left === 0) this.#place = this.#scan ? "data" : "marker";
      } else if (this.#place === "data") {
        const next = chunk.indexOf(MARKER, at);
        at = next === -1 ? chunk.length : next + 1;
        if (next !== -1) this.#place = "data_code";
      } else if (this.#step(chunk[at]!)) {
        at += 1;
      } else {
        at = this.#finish(chunk, start, at);
        start = at;
      }
    }
    if (this.#place !== "outside") this.#keep(chunk.subarray(start));
  }

  /** Behind the next SOI, or at the end of the chunk. */
  #findStart(chunk: Uint8Array, from: number): number {
    let at = from;
    if (this.#ff && chunk[at] === SOI) return this.#begin(at + 1);
    for (;;) {
      const marker = chunk.indexOf(MARKER, at);
      this.#ff = marker === chunk.length - 1;
      if (marker === -1 || this.#ff) return chunk.length;
      at = marker + 1;
      if (chunk[at] === SOI) return this.#begin(at + 1);
    }
  }

  /** SOI is kept by itself: it may have been divided over two chunks. */
  #begin(after: number): number {
    this.#ff = false;
    this.#place = "marker";
    this.#parts = [Uint8Array.of(MARKER, SOI)];
    this.#bytes = 2;
    return after;
  }

  /** Takes one byte of a marker or a length; false when the picture ends at it, or is broken by it. */
  #step(byte: number): boolean {
    switch (this.#place) {
      case "marker":
        if (byte !== MARKER) return false;
        this.#place = "code";
        return true;
      case "code":
        if (byte === MARKER) return true;
        return this.#code(byte);
      case "length_high":
        this.#left = byte << 8;
        this.#place = "length_low";
        return true;
      case "length_low":
        this.#left += byte - 2;
        if (this.#left < 0) return false;
        this.#place = this.#left > 0 ? "payload" : this.#scan ? "data" : "marker";
        return true;
      default:
        if (byte === MARKER) return true;
        if (byte !== 0 && !isBare(byte)) return this.#code(byte);
        this.#place = "data";
        return true;
    }
  }

  #code(byte: number): boolean {
    if (byte === EOI || byte === SOI || byte === 0) return false;
    if (isBare(byte)) this.#place = "marker";
    else this.#place = "length_high";
    this.#scan = byte === SOS;
    return true;
  }

  /** The picture is over at this byte: whole when it is the code of an EOI. Answers where to go on. */
  #finish(chunk: Uint8Array, start: number, at: number): number {
    const byte = chunk[at]!;
    const behind_marker = this.#place === "code" || this.#place === "data_code";
    this.#place = "outside";
    if (behind_marker && byte === EOI) {
      this.#keep(chunk.subarray(start, at + 1));
      if (this.#bytes > this.#bytes_max) this.#refused();
      else this.#emit(Buffer.concat(this.#parts));
      this.#forget();
      return at + 1;
    }
    this.#forget();
    // One that was cut off, with the next behind it.
    this.#ff = behind_marker;
    return at;
  }

  #keep(part: Uint8Array): void {
    this.#bytes += part.length;
    if (this.#bytes > this.#bytes_max) this.#parts = [];
    else if (part.length > 0) this.#parts.push(Uint8Array.from(part));
  }

  #forget(): void {
    this.#parts = [];
    this.#bytes = 0;
  }
}

/** The whole JPEG that these bytes begin with; undefined when they are none. */
export function jpegOf(bytes: Uint8Array): Uint8Array | undefined {
  const found: Uint8Array[] = [];
  if (bytes[0] === MARKER && bytes[1] === SOI) new JpegSplitter((jpeg) => found.push(jpeg), undefined, bytes.length).push(bytes);
  return found[0];
}
