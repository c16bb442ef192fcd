import { type Clock, systemClock, type Timer } from "@roamfleet/clock";
import { LineOutput } from "@roamfleet/clock/line-output";
import { type DestinationStream, type Logger, type LoggerOptions, pino } from "pino";

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

interface LogOptions {
  level: string;
  /** Output stream to use instead of stdout. */
  stream?: DestinationStream;
  /** The output to stdout. A caller that passes it can later read the number of dropped lines. */
  output?: LineOutput;
  /** False writes every line, for tests that count lines. */
  fold?: boolean;
}

/** Creates a logger that writes JSON lines to stdout or `stream`. Messages are constant strings, values are fields. */
export function createLog({ level, stream, output, fold = true }: LogOptions): Logger {
  const repeats = foldRepeats(systemClock);
  if (stream === undefined && fold && level !== "silent") process.once("exit", repeats.flush);
  return pino(
    { ...lineOptions(level), ...(fold ? { hooks: repeats.hooks } : {}) },
    stream ?? reportGaps(output ?? new LineOutput(process.stdout)),
  );
}

const lineOptions = (level: string): LoggerOptions => ({
  level,
  base: null,
  redact: { paths: SECRET_PATHS, censor: "[secret]" },
  timestamp: pino.stdTimeFunctions.isoTime,
  formatters: { level: (label) => ({ level: label }) },
  serializers: { err: errorFields },
});

/** Logs the number of lines that stdout did not accept. This line is written at every log level and is not counted as a repeat. */
function reportGaps(output: LineOutput): LineOutput {
  const gaps = pino(lineOptions("warn"), output);
  output.onGap = (lines) => gaps.warn({ lines }, "dropped log lines that stdout did not accept");
  return output;
}

/** Repeats of a line are counted for this long before their number is written. */
const WINDOW_MS = 1_000;

interface Window {
  repeated: number;
  timer: Timer;
  write: (repeated: number) => void;
}

/**
 * Rate-limits repeated log lines. The first line with a message is written immediately. Repeats at the same level are counted, and their
 * number is written once a second, in the field `repeated` without other fields. Errors count as repeats only if their type and code are
 * equal. Lines below `info` are always written.
 */
export function foldRepeats(clock: Clock): { hooks: NonNullable<LoggerOptions["hooks"]>; flush: () => void } {
  const windows = new Map<string, Window>();
  const open = (key: string, write: Window["write"]): void => {
    const close = (): void => {
      const { repeated } = windows.get(key) ?? { repeated: 0 };
      windows.delete(key);
      if (repeated === 0) return;
      open(key, write);
      write(repeated);
    };
    windows.set(key, { repeated: 0, timer: clock.setTimer(WINDOW_MS, close), write });
  };
  return {
    hooks: {
      logMethod(args, method, level) {
        const log = this as Logger;
        const [fields, message] = args as unknown as [unknown, unknown];
        if (level < pino.levels.values["info"]! || typeof message !== "string") return method.apply(log, args);
        const key = `${level} ${kindOf(fields)} ${message}`;
        const known = windows.get(key);
        if (known !== undefined) {
          known.repeated += 1;
          return;
        }
        open(key, (repeated) => method.apply(log, [{ repeated }, message]));
        method.apply(log, args);
      },
    },
    flush: () => {
      for (const { repeated, timer, write } of windows.values()) {
        timer.cancel();
        if (repeated > 0) write(repeated);
      }
      windows.clear();
    },
  };
}

/** Returns the type and code of a line's error; empty for a line without one. */
function kindOf(fields: unknown): string {
  const error = typeof fields === "object" && fields !== null ? (fields as { err?: unknown }).err : undefined;
  if (!(error instanceof Error)) return "";
  const { name, code } = error as Error & { code?: unknown };
  return `${name} ${typeof code === "string" ? code : ""}`;
}
