import { pino, type DestinationStream, type Logger } from "pino";

/** Headers and fields that carry secrets; they are cut out wherever an object with them is logged. */
const SECRET_PATHS = ["authorization", "cookie", "token", "key", "secret", "password", "*.authorization", "*.cookie", "*.token", "*.key", "*.secret", "*.password"];

/** JSON lines on stdout (or the stream given). Messages are constant strings, values are fields. */
export function createLog(options: { level: string; stream?: DestinationStream }): Logger {
  return pino({ level: options.level, base: null, redact: { paths: SECRET_PATHS, censor: "[secret]" }, timestamp: pino.stdTimeFunctions.isoTime }, options.stream ?? pino.destination(1));
}
