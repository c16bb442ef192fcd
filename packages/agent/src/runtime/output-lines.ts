import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { LOG_MESSAGE_CHARACTERS_MAX } from "@roamfleet/protocol/link";

/**
 * Splits a stream into lines. A line longer than a log record is truncated, and the number of missing characters is passed along: a program without
 * line breaks must not fill our memory. The last line needs no line break.
 */
export function readLines(stream: Readable, line: (text: string, missing_characters: number) => void): void {
  const decoder = new StringDecoder("utf8");
  let kept = "";
  let missing = 0;
  const take = (text: string): void => {
    const room = LOG_MESSAGE_CHARACTERS_MAX - kept.length;
    kept += text.slice(0, room);
    missing += Math.max(0, text.length - room);
  };
  const flush = (): void => {
    const text = kept.endsWith("\r") ? kept.slice(0, -1) : kept;
    if (text !== "" || missing > 0) line(text, missing);
    kept = "";
    missing = 0;
  };
  const push = (text: string): void => {
    let from = 0;
    for (;;) {
      const end = text.indexOf("\n", from);
      if (end < 0) break;
      take(text.slice(from, end));
      flush();
      from = end + 1;
    }
    take(text.slice(from));
  };
  stream.on("data", (chunk: Buffer) => push(decoder.write(chunk)));
  stream.on("end", () => {
    push(decoder.end());
    flush();
  });
  // A broken pipe ends only the log of this process.
  stream.on("error", () => flush());
}
