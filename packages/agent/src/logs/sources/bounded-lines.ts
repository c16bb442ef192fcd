import type { Readable } from "node:stream";

const NEWLINE = 0x0a;

/** Passes on each complete line, or its number of bytes if it is longer than the limit. Text after the last newline is ignored. */
export function boundedLines(stream: Readable, bytes_max: number, take: (line: string | { bytes: number }) => void): void {
  let pieces: Buffer[] = [];
  let bytes = 0;
  stream.on("data", (chunk: Buffer) => {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const last = chunk.subarray(start, end);
      bytes += last.length;
      if (bytes > bytes_max) take({ bytes });
      else take((pieces.length === 0 ? last : Buffer.concat([...pieces, last])).toString("utf8"));
      pieces = [];
      bytes = 0;
      start = end + 1;
    }
    const rest = chunk.subarray(start);
    bytes += rest.length;
    if (bytes > bytes_max) pieces = [];
    else if (rest.length > 0) pieces.push(Buffer.from(rest));
  });
}
