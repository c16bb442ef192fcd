import type { LOG_LEVELS } from "@roamfleet/protocol/link/limits";
import { type LogSearch, timeOf } from "../../search.ts";
import { shellLine } from "../../ui/format.ts";

export type Level = (typeof LOG_LEVELS)[number];

// eslint-disable-next-line no-control-regex -- matches control characters on purpose
const COLORS = /\u001b\[[0-9;:]*m/g;
/**
 * Control characters (C0 without tab and newline, DEL, C1), and characters that reverse or hide text: bidirectional marks, zero-width
 * characters and tags.
 */
// eslint-disable-next-line no-control-regex -- matches control characters on purpose
const HARMFUL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;

interface Piece {
  text: string;
  /** plain: unchanged text; sign: a symbol that replaces an invisible character; hit: a match of the search. */
  kind: "plain" | "sign" | "hit";
}

/** Returns the symbol of a control character: ␛ for ESC, the code point for others. */
function signOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "␡";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/**
 * Splits a message into displayable pieces. Removes color sequences, replaces other control characters with symbols and marks matches
 * of `wanted`, case-insensitively. With `lines` false, line ends become symbols, too, so that the result is one line.
 */
export function piecesOf(message: string, { wanted = "", lines = true }: { wanted?: string; lines?: boolean } = {}): Piece[] {
  const pieces: Piece[] = [];
  const text = message.replace(COLORS, "").replaceAll("\r\n", "\n");
  const push = (part: string, kind: Piece["kind"]): void => {
    if (part !== "") pieces.push({ text: part, kind });
  };
  const plain = (part: string): void => {
    for (const { text: found, is_hit } of hitsIn(part, wanted)) push(found, is_hit ? "hit" : "plain");
  };
  let at = 0;
  const signs = lines ? HARMFUL : new RegExp(`${HARMFUL.source}|\\n`, "gu");
  for (const match of text.matchAll(signs)) {
    plain(text.slice(at, match.index));
    push(match[0] === "\n" ? "⏎ " : signOf(match[0]), "sign");
    at = match.index + match[0].length;
  }
  plain(text.slice(at));
  return pieces;
}

function hitsIn(text: string, wanted: string): { text: string; is_hit: boolean }[] {
  if (wanted === "") return [{ text, is_hit: false }];
  const pattern = new RegExp(wanted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
  const found: { text: string; is_hit: boolean }[] = [];
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    found.push({ text: text.slice(at, match.index), is_hit: false }, { text: match[0], is_hit: true });
    at = match.index + match[0].length;
  }
  found.push({ text: text.slice(at), is_hit: false });
  return found;
}

/** Maximum characters of a message in the list. An opened record shows all. */
export const LINE_CHARACTERS_MAX = 2_000;

/** Returns the start of a long message, cut between characters, and the number of omitted characters. */
export function beginningOf(message: string): { text: string; left_out: number } {
  if (message.length <= LINE_CHARACTERS_MAX) return { text: message, left_out: 0 };
  const code = message.charCodeAt(LINE_CHARACTERS_MAX - 1);
  const end = code >= 0xd800 && code < 0xdc00 ? LINE_CHARACTERS_MAX - 1 : LINE_CHARACTERS_MAX;
  return { text: message.slice(0, end), left_out: message.length - end };
}

export interface LogFilter {
  level?: Level;
  source?: string;
  q?: string;
  since?: string;
  until?: string;
}

/** Converts the filters for the API. */
export function filterOf({ level, source, q, since, until }: LogSearch, now_ms: number): LogFilter {
  const times = {
    since: since === undefined ? undefined : timeOf(since, now_ms),
    until: until === undefined ? undefined : timeOf(until, now_ms),
  };
  return JSON.parse(JSON.stringify({ level, source, q, ...times })) as LogFilter;
}

/** Returns the `rf` command that shows the same log records. It follows the log if the filter has no end time. */
export const logCommand = (of: "robots" | "fleets", id: string, { level, source, q, since, until }: LogSearch): string =>
  shellLine("rf", of, "logs", id, { level, source, grep: q, since, until, follow: until === undefined });
