import { LOG_LEVELS } from "@roamfleet/protocol/link";
import { badRequest } from "../../kernel/fault.ts";
import { parseTime } from "../../kernel/time.ts";
import { LogMatch } from "../logs/index.ts";

export const LOG_STREAM_QUERY = ["level", "source", "q", "after"] as const;
const TEXT_CHARACTERS_MAX = 200;
const TIME = /^\d{4}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** The parameters of a log stream. */
export interface LogWish {
  match: LogMatch;
  /** For a reconnecting viewer: start with the records stored since this time, instead of the last ones. */
  after: Date | undefined;
}

/** Reads `?level=&source=&q=`, as for the list of records, and `?after=`. Throws 400. */
export function readLogWish(query: URLSearchParams): LogWish {
  const level = LOG_LEVELS.find((one) => one === query.get("level"));
  if (query.has("level") && level === undefined) throw badRequest(`query parameter level must be one of ${LOG_LEVELS.join(", ")}`);
  const after = query.get("after");
  if (after !== null && !TIME.test(after)) throw badRequest("query parameter after must be an RFC 3339 time");
  return {
    match: new LogMatch({ since: undefined, until: undefined, level, source: readText(query, "source"), q: readText(query, "q") }),
    after: after === null ? undefined : parseTime(after),
  };
}

function readText(query: URLSearchParams, name: string): string | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  if (text === "" || text.length > TEXT_CHARACTERS_MAX)
    throw badRequest(`query parameter ${name} must have 1 to ${TEXT_CHARACTERS_MAX} characters`);
  return text;
}
