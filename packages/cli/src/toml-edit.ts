import { isDeepStrictEqual } from "node:util";
import { parse, type TomlTable } from "smol-toml";

/**
 * Changes single values of a TOML text and preserves every other character: comments, order and unknown keys. A TOML library would reformat
 * the file and drop the comments.
 */

const UNCHANGEABLE = "its values cannot be changed without losing other content";

/** A statement of a TOML text, with its line ending: a key and its value, a table header, a comment or an empty line. */
interface Statement {
  text: string;
  /** Offset of the value: after the first `=`; -1 if there is none. */
  value_at: number;
  /** Offset of a comment; the length of the text if there is none. */
  comment_at: number;
}

/**
 * Returns the text with the given keys of the table at `path` set, or removed if their value is undefined; [] is the top of the file.
 * Throws if the text is not valid TOML or cannot be edited line by line.
 */
export function editToml(text: string, path: readonly string[], values: Readonly<Record<string, string | undefined>>): string {
  const wanted = parse(text);
  applyTo(wanted, path, values);
  const edited = rewrite(text, path, values);
  if (!isDeepStrictEqual(readOrUndefined(edited), wanted)) throw new Error(UNCHANGEABLE);
  return edited;
}

/** Removes the table at `path` and its subtables; comments after their last key stay. Throws like editToml. */
export function removeTable(text: string, path: readonly string[]): string {
  const wanted = parse(text);
  removeFrom(wanted, path);
  const kept: string[] = [];
  let inside = false;
  let tail: string[] = [];
  for (const statement of split(text)) {
    const is_header = statement.text.trimStart().startsWith("[");
    if (is_header) inside = isDeepStrictEqual(headerPath(statement.text).slice(0, path.length), path);
    if (!inside) kept.push(...tail, statement.text);
    // Keep comments after the last key of the removed table: they may belong to the next table.
    tail = inside && !is_header && statement.value_at === -1 ? [...tail, statement.text] : [];
  }
  const edited = [...kept, ...tail].join("");
  const left = readOrUndefined(edited);
  if (left !== undefined) prune(left, path);
  if (!isDeepStrictEqual(left, wanted)) throw new Error(UNCHANGEABLE);
  return edited;
}

function removeFrom(table: TomlTable, path: readonly string[]): void {
  const [name = "", ...rest] = path;
  const child = table[name];
  if (rest.length === 0) delete table[name];
  else if (isSubtable(child)) removeFrom(child, rest);
  prune(table, path);
}

/**
 * Removes the empty parents of the table at `path`. Compared documents are pruned first, because the edited text may still contain such
 * parents or omit them.
 */
function prune(table: TomlTable, path: readonly string[]): void {
  const [name = "", ...rest] = path;
  const child = table[name];
  if (!isSubtable(child) || rest.length === 0) return;
  prune(child, rest);
  if (Object.keys(child).length === 0) delete table[name];
}

const isSubtable = (value: unknown): value is TomlTable => typeof value === "object" && value !== null && !Array.isArray(value);

function readOrUndefined(text: string): TomlTable | undefined {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

function applyTo(table: TomlTable, path: readonly string[], values: Readonly<Record<string, string | undefined>>): void {
  let at = table;
  for (const name of path) {
    // Creates an empty table with the parser, so that it is comparable with the parsed result.
    at[name] ??= parse("");
    at = at[name] as TomlTable;
  }
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined) delete at[key];
    else at[key] = value;
  }
}

function rewrite(text: string, path: readonly string[], values: Readonly<Record<string, string | undefined>>): string {
  const newline = text.includes("\r\n") ? "\r\n" : "\n";
  const statements = split(text);
  const [from, to] = section(statements, path);
  const missing = new Map(Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined));
  const kept: string[] = [];
  let insert_at = 0;
  for (const statement of statements.slice(from, to)) {
    const key = keyOf(statement);
    if (key === undefined || !(key in values)) kept.push(statement.text);
    else if (values[key] !== undefined) kept.push(withValue(statement, values[key], newline));
    if (key !== undefined) {
      missing.delete(key);
      insert_at = kept.length;
    }
  }
  const added = [...missing].map(([key, value]) => `${key} = ${JSON.stringify(value)}${newline}`);
  kept.splice(insert_at === 0 && path.length === 0 ? kept.length : insert_at, 0, ...added);
  const before = statements.slice(0, from).map((statement) => statement.text);
  const after = statements.slice(to).map((statement) => statement.text);
  const is_new = from === statements.length && path.length > 0;
  const header = is_new && added.length > 0 ? [`${before.length > 0 ? newline : ""}[${path.map(keyText).join(".")}]${newline}`] : [];
  return joinLines([...before, ...header, ...kept, ...after], newline);
}

/** Joins parts of a file. Adds a missing line ending to a part that is followed by another one. */
function joinLines(parts: readonly string[], newline: string): string {
  return parts.map((part, at) => (at < parts.length - 1 && part !== "" && !part.endsWith("\n") ? part + newline : part)).join("");
}

const keyText = (name: string): string => (/^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name));

/** Returns the range of a table's statements: the index of the first one, and the index after the last one. */
function section(statements: readonly Statement[], path: readonly string[]): [number, number] {
  const headers = statements.flatMap((statement, at) => (statement.text.trimStart().startsWith("[") ? [at] : []));
  if (path.length === 0) return [0, headers[0] ?? statements.length];
  for (const [order, at] of headers.entries()) {
    if (isDeepStrictEqual(headerPath(statements[at]!.text), path)) return [at + 1, headers[order + 1] ?? statements.length];
  }
  return [statements.length, statements.length];
}

function headerPath(header: string): string[] {
  const names: string[] = [];
  let at: unknown = readOrUndefined(header);
  while (typeof at === "object" && at !== null && !Array.isArray(at)) {
    const [name] = Object.keys(at);
    if (name === undefined) break;
    names.push(name);
    at = (at as TomlTable)[name];
  }
  return names;
}

function keyOf(statement: Statement): string | undefined {
  if (statement.value_at === -1) return undefined;
  return Object.keys(readOrUndefined(statement.text) ?? {})[0];
}

function withValue(statement: Statement, value: string, newline: string): string {
  const comment = statement.text.slice(statement.comment_at).trimEnd();
  const end = statement.text.endsWith("\n") ? newline : "";
  return `${statement.text.slice(0, statement.value_at)} ${JSON.stringify(value)}${comment === "" ? "" : ` ${comment}`}${end}`;
}

/** Matches one TOML token: a multi-line string, a string, a comment, or any other single character. */
const TOKENS = /"""(?:[^\\]|\\[^])*?"""+|'''[^]*?'''+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*|[^]/g;

function split(text: string): Statement[] {
  const statements: Statement[] = [];
  let current: Statement = { text: "", value_at: -1, comment_at: -1 };
  let depth = 0;
  const end = (): void => {
    if (current.comment_at === -1) current.comment_at = current.text.length;
    if (current.text !== "") statements.push(current);
    current = { text: "", value_at: -1, comment_at: -1 };
    depth = 0;
  };
  for (const [token] of text.matchAll(TOKENS)) {
    if (token === "=" && current.value_at === -1 && depth === 0) current.value_at = current.text.length + 1;
    if (token.startsWith("#") && depth === 0) current.comment_at = current.text.length;
    if (token === "[" || token === "{") depth += 1;
    if (token === "]" || token === "}") depth -= 1;
    current.text += token;
    if (token === "\n" && depth <= 0) end();
  }
  end();
  return statements;
}
