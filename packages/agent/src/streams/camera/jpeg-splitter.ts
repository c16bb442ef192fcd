import { CAMERA_FRAME_BYTES_MAX } from "@roamfleet/protocol/link";

const MARKER = 0xff;
const SOI = 0xd8;
const EOI = 0xd9;
const SOS = 0xda;
/** Returns whether a marker has no segment: TEM, and the restart markers RST0 to RST7. */
const isBare = (code: number): boolean => code === 0x01 || (code >= 0xd0 && code <= 0xd7);

/** State of the parser: what it expects next. */
type Place =
  /** Between two pictures. Everything before the next SOI marker is skipped, such as the headers of a multipart body. */
  | "outside"
  /** A marker is expected. */
  | "marker"
  /** After the 0xff of a marker, which may be repeated. */
  | "code"
  | "length_high"
  | "length_low"
  /** In the payload of a segment. It may contain another complete JPEG, such as a thumbnail. */
  | "payload"
  /** In compressed data. There, 0xff 0x00 encodes a byte 0xff. */
  | "data"
  | "data_code";

/**
 * Splits a stream into JPEGs by parsing their markers. Searching for the end marker would not be enough, since the payload of a segment may
 * contain any bytes. Chunks may end anywhere. Between pictures there may be any data without 0xff 0xd8. Broken pictures and pictures over
 * the limit are dropped. At most one picture of the maximum size is buffered.
 */
export class JpegSplitter {
  readonly #emit: (jpeg: Uint8Array) => void;
  readonly #refused: () => void;
  readonly #bytes_max: number;
  #place: Place = "outside";
  #ff = false;
  #left = 0;
  /** True in the last segment before the compressed data of a picture. */
  #scan = false;
  #parts: Uint8Array[] = [];
  #bytes = 0;

  /** `refused` is called for each picture that is larger than `bytes_max`. */
  constructor(emit: (jpeg: Uint8Array) => void, refused: () => void = () => {}, bytes_max: number = CAMERA_FRAME_BYTES_MAX) {
    this.#bytes_max = bytes_max;
    this.#emit = emit;
    this.#refused = refused;
  }

  /** Parses the next chunk. Copies the bytes that it keeps, so the caller may reuse the chunk. */
  push(chunk: Uint8Array): void {
    /** Offset in this chunk where its part of the picture begins. */
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

  /** Returns the offset after the next SOI marker. Returns the end of the chunk if there is none. */
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

  /** Begins a picture after its SOI marker. The marker is stored separately, since it may have been split over two chunks. */
  #begin(after: number): number {
    this.#ff = false;
    this.#place = "marker";
    this.#parts = [Uint8Array.of(MARKER, SOI)];
    this.#bytes = 2;
    return after;
  }

  /** Parses one byte of a marker or a length; false if the picture ends here, or is broken. */
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

  /**
   * Ends the picture at this byte. The picture is complete if this byte ends an EOI marker; otherwise it is broken. Returns the offset at
   * which parsing continues.
   */
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
    // The picture was truncated, and this marker begins the next one.
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

/** Returns the complete JPEG at the beginning of these bytes; undefined if there is none. */
export function jpegOf(bytes: Uint8Array): Uint8Array | undefined {
  const found: Uint8Array[] = [];
  if (bytes[0] === MARKER && bytes[1] === SOI) new JpegSplitter((jpeg) => found.push(jpeg), undefined, bytes.length).push(bytes);
  return found[0];
}
