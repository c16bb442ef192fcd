import { hash } from "node:crypto";
import { badRequest } from "./fault.ts";

/** A list without `limit` and `cursor` is whole up to this many rows. */
export const LIST_ROWS_MAX = 10_000;
export const PAGE_ROWS_MAX = 1_000;

export interface PageQuery {
  limit?: number;
  cursor?: string;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

/** What a list reads: rows behind `after` (the key of the last row of the page before), at most `limit`. */
export interface Window {
  after: string | null;
  limit: number;
}

/**
 * Sorts behind every id, in the C locale and in any other: `id < ${after ?? BEHIND_ALL_IDS}` reads an index from where
 * the page starts, which `after is null or id < after` does not once the statement is planned for all parameters.
 */
export const BEHIND_ALL_IDS = "zzzz";

/** Where a request's page starts, and the cursor that leads on from a key. */
export interface OpenedCursor {
  /** The key that the cursor was made of; null on the first page. */
  after: string | null;
  encode: (key: string) => string;
}

/** Opens the cursor of a list, bound to the list and its filters: `scope` is whatever must stay the same from page to page (route, org). */
export function openCursor({ limit: _, cursor, ...filters }: PageQuery & Record<string, unknown>, scope: readonly unknown[]): OpenedCursor {
  const bound = hash("sha256", JSON.stringify([scope, Object.entries(filters).toSorted()]), "base64url").slice(0, 16);
  return { after: cursor === undefined ? null : decodeCursor(cursor, bound), encode: (key) => encodeCursor(key, bound) };
}

/** Reads one page by keyset. Rows inserted meanwhile neither repeat nor hide others. */
export async function readPage<T, W>(
  query: PageQuery & Record<string, unknown>,
  scope: readonly unknown[],
  read: (window: Window) => Promise<T[]>,
  key: (row: T) => string,
  wire: (row: T) => W,
): Promise<Page<W>> {
  const { limit, cursor } = query;
  const { after, encode } = openCursor(query, scope);
  const wanted = limit ?? (cursor === undefined ? LIST_ROWS_MAX : PAGE_ROWS_MAX);
  const rows = await read({ after, limit: wanted + 1 });
  const items = rows.slice(0, wanted);
  const last = items.at(-1);
  return { items: items.map(wire), next_cursor: rows.length > wanted && last !== undefined ? encode(key(last)) : null };
}

const encodeCursor = (key: string, bound: string): string => Buffer.from(JSON.stringify([bound, key])).toString("base64url");

function decodeCursor(cursor: string, bound: string): string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(cursor, "base64url").toString("utf8"));
  } catch {
    throw badRequest("cursor is not one that a list answered");
  }
  if (!Array.isArray(parsed) || parsed.length !== 2 || typeof parsed[1] !== "string" || parsed[1].includes("\0")) {
    throw badRequest("cursor is not one that a list answered");
  }
  if (parsed[0] !== bound) throw badRequest("cursor belongs to another list or filter");
  return parsed[1];
}
