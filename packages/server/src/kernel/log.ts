import { pino, type DestinationStream, type Logger } from "pino";

/** Headers and fields that carry secrets; they are cut out wherever an object with them is logged. */
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

/** Of an error only what helps: drivers hang whole connections, with their passwords, on theirs. */
function errorFields(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack, code, cause } = error as Error & { code?: unknown };
  return { type: name, message, code, stack, ...(cause === undefined ? {} : { cause: errorFields(cause) }) };
}

/** JSON lines on stdout (or the stream given). Messages are constant strings, values are fields. */
export function createLog(options: { level: string; stream?: DestinationStream }): Logger {
  return pino(
    {
      level: options.level,
      base: null,
      redact: { paths: SECRET_PATHS, censor: "[secret]" },
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: errorFields },
    },
    options.stream ?? pino.destination(1),
  );
}
