import { hash } from "node:crypto";
import { idFloor } from "@roamfleet/clock";
import { badRequest } from "./fault.ts";
import { sql, type Statement } from "./sql.ts";
import { type WireTimes, wireTimes } from "./time.ts";

/** Maximum rows of a list without `limit` and `cursor`. */
export const LIST_ROWS_MAX = 10_000;
export const PAGE_ROWS_MAX = 1_000;

interface PageQuery {
  limit?: number;
  cursor?: string;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

/** The rows that a list reads: those after `after` (the key of the previous page's last row), at most `limit`. */
export interface Window {
  after: string | null;
  limit: number;
}

/**
 * A text that sorts after every id in every locale. With `id < ${after ?? MAX_ID}`, PostgreSQL starts the index scan at the first row of
 * the page. With `after is null or id < after`, it cannot do so once it uses a generic plan.
 */
export const MAX_ID = "zzzz";

const LIMIT_OF_PAGE = sql`limit 1001`;
const LIMIT_OF_LIST = sql`limit 10001`;

/**
 * Returns the first `limit` rows of a query for a page. Without the limit in the text, PostgreSQL estimates that a generic plan returns a
 * tenth of all rows. Then it makes a new plan for each call, which takes longer than the query.
 */
export const limited = (query: Statement<unknown>, limit: number): Statement<unknown> =>
  sql`select * from (${query} ${limit <= PAGE_ROWS_MAX + 1 ? LIMIT_OF_PAGE : LIMIT_OF_LIST}) as page_bound limit ${limit}`;

/** The start of a request's page, and the cursors for the following ones. */
interface OpenedCursor {
  /** The key in the cursor; null on the first page. */
  after: string | null;
  encode: (key: string) => string;
}

/**
 * Decodes the cursor of a list. A cursor is only valid for the same filters and the same `scope`: the values that must not change between
 * pages (route, org).
 */
export function openCursor({ limit: _, cursor, ...filters }: PageQuery & Record<string, unknown>, scope: readonly unknown[]): OpenedCursor {
  const bound = hash("sha256", JSON.stringify([scope, Object.entries(filters).toSorted()]), "base64url").slice(0, 16);
  return { after: cursor === undefined ? null : decodeCursor(cursor, bound), encode: (key) => encodeCursor(key, bound) };
}

type ListQuery = PageQuery & Record<string, unknown>;

/** Rows on the first page of a history (audit, timeline, logs) without `limit`. */
const HISTORY_ROWS = 200;

/** Returns the number of rows of a history's page. */
export const historyLimit = ({ limit, cursor }: PageQuery): number => limit ?? (cursor === undefined ? HISTORY_ROWS : PAGE_ROWS_MAX);

type Read<T> = (window: Window) => Promise<T[]>;

/** Reads one page by keyset, by default by id. Rows inserted between pages do not repeat or hide other rows. */
export async function readPage<T extends { id: string }, W>(
  query: ListQuery,
  scope: readonly unknown[],
  read: Read<T>,
  wire: (row: T) => W,
): Promise<Page<W>>;
export async function readPage<T, W>(
  query: ListQuery,
  scope: readonly unknown[],
  read: Read<T>,
  wire: (row: T) => W,
  key: (row: T) => string,
): Promise<Page<W>>;
export async function readPage<T, W>(
  query: ListQuery,
  scope: readonly unknown[],
  read: Read<T>,
  wire: (row: T) => W,
  key = (row: T): string => (row as { id: string }).id,
): Promise<Page<W>> {
  const { limit, cursor } = query;
  const { after, encode } = openCursor(query, scope);
  const wanted = limit ?? (cursor === undefined ? LIST_ROWS_MAX : PAGE_ROWS_MAX);
  const rows = await read({ after, limit: wanted + 1 });
  const items = rows.slice(0, wanted);
  const last = items.at(-1);
  return { items: items.map(wire), next_cursor: rows.length > wanted && last !== undefined ? encode(key(last)) : null };
}

/** Reads one page of a history: fewer rows without `limit`, and times as text. */
export const readHistory = <T extends { id: string }>(
  query: ListQuery,
  scope: readonly unknown[],
  read: Read<T>,
): Promise<Page<WireTimes<T>>> => readPage({ ...query, limit: historyLimit(query) }, scope, read, wireTimes);

/** Yields all rows in pages of at most `limit`. `read` returns the page after the row `last`, or the first page if `last` is undefined. */
export async function* pages<T>(limit: number, read: (last: T | undefined) => Promise<readonly T[]>): AsyncGenerator<readonly T[]> {
  for (let last: T | undefined; ;) {
    const rows = await read(last);
    if (rows.length > 0) yield rows;
    if (rows.length < limit) return;
    last = rows.at(-1);
  }
}

const encodeCursor = (key: string, bound: string): string => Buffer.from(JSON.stringify([bound, key])).toString("base64url");

function decodeCursor(cursor: string, bound: string): string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(cursor, "base64url").toString("utf8"));
  } catch {
    throw badRequest("cursor is invalid: use next_cursor of the previous page");
  }
  if (!Array.isArray(parsed) || parsed.length !== 2 || typeof parsed[1] !== "string" || parsed[1].includes("\0")) {
    throw badRequest("cursor is invalid: use next_cursor of the previous page");
  }
  if (parsed[0] !== bound) throw badRequest("cursor belongs to another list or filter");
  return parsed[1];
}

/**
 * Returns a PostgreSQL regular expression that matches `text` in any case: `name ~ ${containing(q)}`. The database uses the C locale, whose
 * lower() and ~* only convert ASCII letters, so each letter is given in both cases.
 */
export const containing = (text: string): string => Array.from(text, either).join("");

function either(character: string): string {
  const cases = [...new Set([character, character.toLowerCase(), character.toUpperCase()])].filter((one) => Array.from(one).length === 1);
  if (cases.length > 1) return `[${cases.join("")}]`;
  return /[\p{L}\p{N}\s]/u.test(character) ? character : `\\${character}`;
}

const NOTHING = sql``;
/**
 * Maximum difference between the time in an id and the time of its row. An id may be ahead after the clock is set back, because new ids
 * continue from the last one.
 */
const AHEAD_MS_MAX = 3_600_000;

/**
 * Returns ` and …`, which selects rows whose column `at` is `since` or later. Each row's id must have been created at the time in `at`. Ids
 * are ordered by time, so a list ordered by id does not scan older rows.
 */
export const madeSince = (prefix: string, since: Date | undefined): Statement<unknown> =>
  since === undefined ? NOTHING : sql`and at >= ${since} and id >= ${idFloor(prefix, new Date(since.getTime() - AHEAD_MS_MAX))}`;

/**
 * Returns ` and …`, which selects rows whose column `at` is before `until`. A list ordered by id starts there instead of at the newest row.
 */
export const madeBefore = (prefix: string, until: Date | undefined): Statement<unknown> =>
  until === undefined ? NOTHING : sql`and at < ${until} and id < ${idFloor(prefix, new Date(until.getTime() + AHEAD_MS_MAX))}`;
