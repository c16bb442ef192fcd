import type { LogLevel } from "@roamfleet/protocol/link";

/** Programs write their level near the beginning of a line; a word later in a sentence is not a level. */
const LOOKED_AT_CHARACTERS = 120;
const WORD = /(?<![\w-])(?:(TRACE)|(DEBUG)|(INFO|NOTICE)|(WARN|WARNING)|(ERROR|ERR)|(FATAL|CRITICAL|CRIT|EMERG|PANIC))(?![\w-])/;
const LOWER =
  /(?:\[|level=|"level":\s?")(?:(trace)|(debug)|(info|notice)|(warn|warning)|(error|err)|(fatal|critical|crit|emerg|panic))(?![\w-])/;
const LEVELS: readonly LogLevel[] = ["trace", "debug", "info", "warn", "error", "fatal"];

/** Returns the level that a line names in capitals, in brackets, or as a field; `info` if it names none. */
export function levelOfLine(line: string): LogLevel {
  const head = line.slice(0, LOOKED_AT_CHARACTERS);
  const match = WORD.exec(head) ?? LOWER.exec(head);
  const index = match === null ? -1 : match.slice(1).findIndex((word) => word !== undefined);
  return LEVELS[index] ?? "info";
}
