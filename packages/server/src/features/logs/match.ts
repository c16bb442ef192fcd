import { LOG_LEVELS, type LogLevel, type LogRecordBody } from "@roamfleet/protocol/link";
import type { BatchFilter } from "./store.ts";

export interface LogFilter extends BatchFilter {
  level: LogLevel | undefined;
  source: string | undefined;
  /** Text that the message contains, case-insensitive. */
  q: string | undefined;
}

/** Characters that JSON may write in several ways: text with them cannot be searched in raw JSON. */
const WRITTEN_OTHERWISE = /["\\/\p{Cc}]/u;

/** Decides which records match a filter. */
export class LogMatch {
  readonly #from: string | undefined;
  readonly #to: string | undefined;
  readonly #levels: ReadonlySet<string> | undefined;
  readonly #source: string | undefined;
  readonly #wanted: string | undefined;
  readonly #needle: string | undefined;

  constructor({ since, until, level, source, q }: LogFilter) {
    // Stored times all have one form, so they compare as text.
    this.#from = since?.toISOString();
    this.#to = until?.toISOString();
    this.#levels = level === undefined || level === LOG_LEVELS[0] ? undefined : new Set(LOG_LEVELS.slice(LOG_LEVELS.indexOf(level)));
    this.#source = source;
    this.#wanted = q?.toLowerCase();
    // The longest part of the text that is unescaped in JSON.
    this.#needle = this.#wanted?.split(WRITTEN_OTHERWISE).toSorted((a, b) => b.length - a.length)[0];
  }

  /** Whether all records match. */
  get all(): boolean {
    return [this.#from, this.#to, this.#levels, this.#source, this.#wanted].every((part) => part === undefined);
  }

  /**
   * Whether the JSON of a flush may contain a matching record; false if it cannot. Searching the text costs half as much as parsing the
   * records.
   */
  mayMatch(json: string): boolean {
    if (this.#levels !== undefined && !Array.from(this.#levels, (level) => `"${level}"`).some((level) => json.includes(level)))
      return false;
    if (this.#source !== undefined && !WRITTEN_OTHERWISE.test(this.#source) && !json.includes(`"${this.#source}"`)) return false;
    return this.#needle === undefined || this.#needle === "" || json.toLowerCase().includes(this.#needle);
  }

  matches(record: Pick<LogRecordBody, "at" | "level" | "source" | "message">): boolean {
    return (
      (this.#from === undefined || record.at >= this.#from) &&
      (this.#to === undefined || record.at < this.#to) &&
      (this.#levels === undefined || this.#levels.has(record.level)) &&
      (this.#source === undefined || record.source === this.#source) &&
      (this.#wanted === undefined || record.message.toLowerCase().includes(this.#wanted))
    );
  }
}
