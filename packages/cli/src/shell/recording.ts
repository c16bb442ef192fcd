import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

export interface RecordedEvent {
  /** Seconds since the shell was opened. */
  seconds: number;
  /** `o`: output; `r`: resize; `m`: marker. */
  kind: string;
  text: string;
}

/** Parses the events of an asciinema v2 recording, one per line; other lines are skipped. */
export async function* events(content: Readable): AsyncGenerator<RecordedEvent> {
  const lines = createInterface({ input: content, crlfDelay: Infinity });
  // The content may fail between two lines; then the next read throws.
  lines.on("error", () => {});
  for await (const line of lines) {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      // The last line of a recording that is still being written.
      continue;
    }
    const [seconds, kind, text] = Array.isArray(value) ? (value as unknown[]) : [];
    if (typeof seconds === "number" && typeof kind === "string" && typeof text === "string") yield { seconds, kind, text };
  }
}
