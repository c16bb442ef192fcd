import { ENGINE_LINE_BYTES_MAX } from "../limits.ts";

/** One progress line of the engine for a load or a pull. */
export interface ProgressLine {
  status?: string;
  /** Id of a layer. */
  id?: string;
  progressDetail?: { current?: number; total?: number };
  stream?: string;
  error?: string;
}

/** Reads the engine's lines of JSON to their end; calls `line` for each. Throws the engine's error message as Error. */
export async function readProgress(stream: AsyncIterable<Uint8Array | string>, line: (progress: ProgressLine) => void): Promise<void> {
  const decoder = new TextDecoder();
  let kept = "";
  const take = (text: string): void => {
    if (text.trim() === "") return;
    const progress = parseLine(text);
    if (progress === undefined) return;
    if (typeof progress.error === "string") throw new Error(progress.error);
    line(progress);
  };
  for await (const chunk of stream) {
    kept += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
    const lines = kept.split("\n");
    kept = lines.pop() ?? "";
    for (const one of lines) take(one);
    if (kept.length > ENGINE_LINE_BYTES_MAX) throw new Error("the container engine sent a line that is too long");
  }
  take(kept);
}

function parseLine(text: string): ProgressLine | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
