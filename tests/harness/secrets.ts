import { closeSync, openSync, readdirSync, readSync, statSync } from "node:fs";
import path from "node:path";
import type { Db } from "../../packages/server/src/kernel/db.ts";
import { identifier, list, row, sql, type Statement, text } from "../../packages/server/src/kernel/sql.ts";

/** Pattern of a secret: long enough to exclude false positives, short enough to find a truncated secret. */
const SECRET = "rf_(org|user|enroll|session|csrf|ticket)_[0-9a-f]{16}";
const SECRET_BEGIN = Buffer.from("rf_");
/** Length of the longest text that the pattern matches. */
const SECRET_CHARACTERS = "rf_session_".length + 16;
const CHUNK_BYTES = 1024 * 1024;

const tableRow = row({ name: text });

/** Returns the tables with a row that contains the pattern of a secret, as text or as bytes. */
export function tablesWithSecrets(db: Db): Promise<string[]> {
  const as_bytes = `${Buffer.from("rf_").toString("hex")}(6f7267|75736572|656e726f6c6c|73657373696f6e|7469636b6574)5f`;
  return tablesWhere(db, sql`t::text ~ ${SECRET} or t::text ~ ${as_bytes}`);
}

/** Returns the tables with a row that contains one of these texts, as text or as bytes. */
export function tablesThatHold(db: Db, texts: readonly string[]): Promise<string[]> {
  const needles = texts.flatMap((text) => [text, Buffer.from(text).toString("hex")]);
  return tablesWhere(db, sql`exists (select from unnest(${list(needles)}::text[]) as n (needle) where position(n.needle in t::text) > 0)`);
}

/** Searches all tables with one statement, because every plane in tests does this at its end. */
async function tablesWhere(db: Db, condition: Statement<unknown>): Promise<string[]> {
  const tables = await db.many(sql(tableRow)`
    select c.relname::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'public' and c.relkind = 'r'`);
  const searches = tables.map(({ name }) => sql`select ${name}::text where exists (select from ${identifier(name)} t where ${condition})`);
  const all = searches.reduce((some, next) => sql`${some} union all ${next}`);
  return (await db.many(sql(tableRow)`select name from (${all}) as found (name)`)).map(({ name }) => name);
}

/** Returns the secrets in a text, truncated so that the output reveals none. */
export const secretsInText = (words: string): string[] =>
  Array.from(words.matchAll(new RegExp(SECRET, "g")), ([found]) => `${found.slice(0, 14)}…`);

/** Returns all files below a directory that contain one of these secrets. */
export function filesWithSecrets(directory: string, secrets: readonly string[]): string[] {
  const needles = secrets.map((secret) => Buffer.from(secret));
  const overlap = Math.max(0, ...needles.map(({ length }) => length));
  const isFound = (chunk: Buffer): boolean => needles.some((needle) => chunk.includes(needle));
  return findFiles(directory).filter((name) => fileHolds(path.join(directory, name), overlap, isFound));
}

/** Returns the paths of all files below a directory. Files may vanish meanwhile. */
function findFiles(directory: string, below = ""): string[] {
  return unlessGone(() => readdirSync(path.join(directory, below), { withFileTypes: true }), []).flatMap((entry) => {
    const name = path.join(below, entry.name);
    if (entry.isDirectory()) return findFiles(directory, name);
    const is_file = entry.isSymbolicLink() ? statSync(path.join(directory, name), { throwIfNoEntry: false })?.isFile() : entry.isFile();
    return is_file === true ? [name] : [];
  });
}

function unlessGone<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return otherwise;
    throw error;
  }
}

/**
 * One buffer for all reads. At its end, each server reads the 1,200 files of its database; with a new buffer for each file, most of the
 * time was spent on clearing memory.
 */
let shared = Buffer.alloc(CHUNK_BYTES);

function fileHolds(file: string, overlap: number, isFound: (chunk: Buffer) => boolean): boolean {
  const handle = unlessGone(() => openSync(file, "r"), undefined);
  if (handle === undefined) return false;
  try {
    if (shared.length < CHUNK_BYTES + overlap) shared = Buffer.alloc(CHUNK_BYTES + overlap);
    let kept = 0;
    for (;;) {
      const read = readSync(handle, shared, kept, CHUNK_BYTES, null);
      if (read === 0) return false;
      const filled = shared.subarray(0, kept + read);
      if (isFound(filled)) return true;
      kept = Math.min(overlap, filled.length);
      filled.copyWithin(0, filled.length - kept);
    }
  } finally {
    closeSync(handle);
  }
}

/**
 * Returns whether bytes contain the pattern of a secret. Searching for the pattern's fixed first bytes is faster than matching the whole
 * pattern.
 */
function holdsSecret(bytes: Buffer): boolean {
  const pattern = new RegExp(SECRET);
  for (let at = bytes.indexOf(SECRET_BEGIN); at >= 0; at = bytes.indexOf(SECRET_BEGIN, at + 1))
    if (pattern.test(bytes.toString("latin1", at, at + SECRET_CHARACTERS))) return true;
  return false;
}

/** Throws if the output or files of a process contain the pattern of a secret. Content pushed by users is exempt. */
export function refuseSecrets(who: string, { directory, outputs }: { directory?: string; outputs: readonly string[] }): void {
  const files = directory === undefined ? [] : findFiles(directory).filter((file) => !file.startsWith("blobs/"));
  const found = [
    ...outputs.flatMap((words) => secretsInText(words).map((secret) => `its output (${secret})`)),
    ...files.filter((file) => fileHolds(path.join(directory ?? "", file), SECRET_CHARACTERS, holdsSecret)).map((file) => `file ${file}`),
  ];
  if (found.length > 0) throw new Error(`${who} left a secret in: ${found.join(", ")}`);
}
