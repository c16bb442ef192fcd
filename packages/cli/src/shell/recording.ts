import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

export interface RecordedEvent {
  /** Since the shell was opened. */
  seconds: number;
  /** `o`: output; `r`: a new size; `m`: a mark. */
  kind: string;
  text: string;
}

/** The events of a recording as asciinema v2 has them, a line each; what is no event is left out. */
export async function* events(content: Readable): AsyncGenerator<RecordedEvent> {
  const lines = createInterface({ input: content, crlfDelay: Infinity });
  // The content may break between two lines that are asked for; the next that is asked for throws.
  lines.on("error", () => {});
  for await (const line of lines) {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      // The last one of a recording that is being written.
      continue;
    }
    const [seconds, kind, text] = Array.isArray(value) ? (value as unknown[]) : [];
    if (typeof seconds === "number" && typeof kind === "string" && typeof text === "string") yield { seconds, kind, text };
  }
}
