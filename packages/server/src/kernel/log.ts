import { systemClock } from "@roamfleet/clock";
import { pino, type DestinationStream, type Logger } from "pino";
import { foldRepeats } from "./fold-repeats.ts";

/** Headers and fields with secrets. They are removed from every logged object. */
const SECRET_PATHS = [
  "authorization",
  "cookie",
  "set-cookie",
  "x-csrf-token",
  "csrf_token",
  "token",
  "key",
  "secret",
  "password",
  "*.authorization",
  "*.cookie",
  '*["set-cookie"]',
  '*["x-csrf-token"]',
  "*.csrf_token",
  "*.token",
  "*.key",
  "*.secret",
  "*.password",
];

/** Selects the useful fields of an error. Drivers attach whole connections, with passwords, to their errors. */
function errorFields(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack, code, cause } = error as Error & { code?: unknown };
  return { type: name, message, code, stack, ...(cause === undefined ? {} : { cause: errorFields(cause) }) };
}

export interface LogOptions {
  level: string;
  /** Used instead of stdout. */
  stream?: DestinationStream;
  /** False writes every line, for tests that count lines. */
  fold?: boolean;
}

/** Creates a logger that writes JSON lines to stdout or `stream`. Messages are constant strings, values are fields. */
export function createLog({ level, stream, fold = true }: LogOptions): Logger {
  const repeats = foldRepeats(systemClock);
  if (stream === undefined && fold && level !== "silent") process.once("exit", repeats.flush);
  return pino(
    {
      level,
      base: null,
      redact: { paths: SECRET_PATHS, censor: "[secret]" },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFields },
      ...(fold ? { hooks: repeats.hooks } : {}),
    },
    stream ?? pino.destination(1),
  );
}
