import type { LogRecord } from "./routes/index.ts";

/**
 * A frame that contains a cursor. The server sends it in log streams that were opened with the query parameter `cursor`. A stream that is
 * opened with this cursor continues after the records that were sent before this frame.
 */
export interface LogCursorFrame {
  type: "cursor";
  cursor: string;
}

/** Parses a frame of a log stream; undefined if it is not JSON. */
export function readLogFrame(text: string): LogRecord | LogCursorFrame | undefined {
  try {
    return JSON.parse(text) as LogRecord | LogCursorFrame;
  } catch {
    return undefined;
  }
}

export const isLogCursor = (frame: LogRecord | LogCursorFrame): frame is LogCursorFrame => "type" in frame && frame.type === "cursor";
