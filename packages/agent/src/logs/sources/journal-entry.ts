import type { LogLevel } from "@roamfleet/protocol/link";
import type { LogRecord } from "../../contract.ts";

/** By syslog's priorities: emerg, alert, crit, err, warning, notice, info, debug. */
const LEVELS: readonly LogLevel[] = ["fatal", "fatal", "fatal", "error", "warn", "info", "info", "debug"];

/** The fields requested from the journal, besides the cursor and the time, which it always returns. */
export const JOURNAL_FIELDS = [
  "MESSAGE",
  "PRIORITY",
  "SYSLOG_IDENTIFIER",
  "_SYSTEMD_UNIT",
  "_SYSTEMD_USER_UNIT",
  "_PID",
  "_COMM",
  "_TRANSPORT",
] as const;

export interface JournalEntry {
  cursor: string;
  unit: string | undefined;
  record: LogRecord & { at: Date };
}

/** Parses a line of `journalctl --output=json`; undefined if it is invalid. */
export function readJournalEntry(line: string): JournalEntry | undefined {
  let entry: Record<string, unknown>;
  try {
    entry = JSON.parse(line) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  const cursor = entry["__CURSOR"];
  const microseconds = Number(entry["__REALTIME_TIMESTAMP"]);
  if (typeof cursor !== "string" || !Number.isFinite(microseconds)) return undefined;
  const unit = textOf(entry["_SYSTEMD_USER_UNIT"]) ?? textOf(entry["_SYSTEMD_UNIT"]);
  const identifier = textOf(entry["SYSLOG_IDENTIFIER"]);
  const pid = Number(textOf(entry["_PID"]));
  const kernel = entry["_TRANSPORT"] === "kernel" ? "kernel" : undefined;
  const source = unit ?? kernel ?? identifier ?? textOf(entry["_COMM"]) ?? "journal";
  return {
    cursor,
    unit,
    record: {
      level: LEVELS[Number(textOf(entry["PRIORITY"]) ?? 6)] ?? "info",
      source,
      message: textOf(entry["MESSAGE"]) ?? "",
      fields: { ...(identifier === undefined || identifier === source ? {} : { identifier }), ...(pid > 0 ? { pid } : {}) },
      at: new Date(microseconds / 1_000),
    },
  };
}

/** The journal writes text that is not UTF-8 as an array of bytes, and a repeated field as an array of strings. */
function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value === "" ? undefined : value;
  if (!Array.isArray(value) || value.length === 0) return undefined;
  if (value.every((byte) => typeof byte === "number")) return Buffer.from(value).toString("utf8");
  return textOf(value[0]);
}
