import { hash } from "node:crypto";

/** PostgreSQL type of a column, as far as reading rows needs it. */
export type ColumnKind = "text" | "int" | "bigint" | "float" | "bool" | "timestamptz" | "bytea" | "jsonb";

export interface Column<T> {
  readonly kind: ColumnKind;
  readonly nullable: boolean;
  /** Never set at run time. It only carries the TypeScript type. */
  readonly type?: T;
}

export type Columns = Readonly<Record<string, Column<unknown>>>;

const column = <T>(kind: ColumnKind): Column<T> => ({ kind, nullable: false });

export const text: Column<string> = column("text");
/** A text column whose CHECK constraint allows a closed set: `textOf<"queued" | "done">()`. */
export const textOf = <T extends string>(): Column<T> => column("text");
export const int: Column<number> = column("int");
/** An int8 read as a JS number. A value beyond 2^53 fails the query rather than being rounded. */
export const bigint: Column<number> = column("bigint");
export const float: Column<number> = column("float");
export const bool: Column<boolean> = column("bool");
export const timestamptz: Column<Date> = column("timestamptz");
export const bytea: Column<Buffer> = column("bytea");
export const jsonb = <T>(): Column<T> => column("jsonb");
export const nullable = <T>(of: Column<T>): Column<T | null> => ({ kind: of.kind, nullable: true });

/** Text that is part of the statement, not a parameter. Only this module creates it. */
class Verbatim {
  readonly #sql: string;
  constructor(sql: string) {
    this.#sql = sql;
  }

  get sql(): string {
    return this.#sql;
  }
}

/** The columns of a row whose times are read as text. */
type WiredColumns<C extends Columns> = {
  [K in keyof C]: C[K] extends Column<Date> ? Column<string> : C[K] extends Column<Date | null> ? Column<string | null> : C[K];
};

/** The columns of a row. In a `sql` template it expands to its column list. */
export class RowShape<C extends Columns = Columns> extends Verbatim {
  readonly columns: C;
  /** Whether times are read as the text of a response, which is faster than as a Date. */
  readonly has_text_times: boolean;
  readonly #aliased = new Map<string, Verbatim>();
  /** The tag that `sql(row)` returns, created once. */
  readonly tag: Tag<RowOf<RowShape<C>>>;

  constructor(columns: C, has_text_times = false) {
    const names = Object.keys(columns);
    if (names.length === 0) throw new Error("a row needs a column");
    names.forEach(requireName);
    super(names.join(", "));
    this.columns = columns;
    this.has_text_times = has_text_times;
    this.tag = (strings, ...values) => build(strings, values, this);
  }

  /** Returns a row of some of the columns, in the given order. */
  only<K extends keyof C & string>(...names: K[]): RowShape<Pick<C, K>> {
    return new RowShape(Object.fromEntries(names.map((name) => [name, this.columns[name]])) as Pick<C, K>);
  }

  /** Returns the column list for an alias: `row.of("s")` is `s.id, s.org_id, …`. */
  of(alias: string): Verbatim {
    let aliased = this.#aliased.get(alias);
    if (aliased === undefined) {
      requireName(alias);
      aliased = new Verbatim(
        Object.keys(this.columns)
          .map((name) => `${alias}.${name}`)
          .join(", "),
      );
      this.#aliased.set(alias, aliased);
    }
    return aliased;
  }
}

/** The TypeScript type of the rows of `row({…})`: `type SiteRow = RowOf<typeof siteRow>`. */
export type RowOf<S extends { readonly columns: Columns }> = {
  -readonly [K in keyof S["columns"]]: S["columns"][K] extends Column<infer T> ? T : never;
};

/** Declares a row: the columns that a query returns, with their types. Names are not quoted, so they must not be reserved words. */
export const row = <C extends Columns>(columns: C): RowShape<C> => new RowShape(columns);

/** Declares a row for a response. Its times are read as text in the format of the API: RFC 3339 in UTC with milliseconds. */
export const wiredRow = <C extends Columns>(columns: C): RowShape<WiredColumns<C>> => new RowShape(columns as WiredColumns<C>, true);

/**
 * A statement with its parameters bound; `R` is the type of its rows. When interpolated into another statement, it becomes part of that
 * statement.
 */
export interface Statement<out R> {
  readonly text: string;
  /** Name of the prepared statement, a hash of the text; undefined if it should not be prepared. */
  readonly name: string | undefined;
  readonly values: readonly unknown[];
  /** Expected columns of the rows; undefined for commands and fragments. */
  readonly row: RowShape | undefined;
  /** Never set: carries the row type. */
  readonly row_type?: R;
}

type Scalar = string | number | bigint | boolean | Date | Uint8Array | null;
export type SqlValue = Scalar | readonly Scalar[] | JsonParameter | Verbatim | Statement<unknown>;
type Tag<R> = (strings: TemplateStringsArray, ...values: SqlValue[]) => Statement<R>;

class JsonParameter {
  readonly #json: string | null;
  constructor(json: string | null) {
    this.#json = json;
  }

  get json(): string | null {
    return this.#json;
  }
}

/** Binds a value as JSON text. `undefined` is SQL null; `null` is JSON's null, which is a value. */
export const json = (value: unknown): JsonParameter => new JsonParameter(value === undefined ? null : (JSON.stringify(value) ?? null));

/** Binds an array as one array parameter: `= any(${list(ids)}::text[])`. */
export const list = (values: Iterable<Scalar>): readonly Scalar[] => Array.from(values);

/** Writes a constant name into the statement, `name` or `alias.name`. Never use it for external input. */
export const identifier = (name: string): Verbatim => new Verbatim(name.split(".", 2).map(requireName).join("."));

/** The start of a day in UTC as a literal, for DDL, which takes no parameters. */
export const dayLiteral = (day: Date): Verbatim => new Verbatim(`'${day.toISOString().slice(0, 10)} 00:00:00+00'`);

const NAME = /^[a-z_][a-z0-9_]*$/;

function requireName(name: string): string {
  if (!NAME.test(name)) throw new Error(`not a plain SQL name: ${JSON.stringify(name)}`);
  return name;
}

/**
 * Builds a statement. `sql(row)\`select …\`` returns rows. `sql\`…\`` is a command or a fragment of another statement. Every interpolated
 * value becomes a bound parameter, except rows, identifiers and statements, which become text.
 */
export function sql<C extends Columns>(shape: RowShape<C>): Tag<RowOf<RowShape<C>>>;
export function sql(strings: TemplateStringsArray, ...values: SqlValue[]): Statement<unknown>;
export function sql(first: RowShape | TemplateStringsArray, ...values: SqlValue[]): unknown {
  return first instanceof RowShape ? first.tag : build(first, values, undefined);
}

/**
 * Returns the statement unprepared, so that PostgreSQL plans each call for its values. For statements whose plan for any values would be
 * bad. It cannot be interpolated.
 */
export const unprepared = <R>({ text, values, row }: Statement<R>): Statement<R> => ({ text, name: undefined, values, row });

/** Identifiers by column name. Each is created once, because the cache of composed templates compares them by identity. */
const compared_columns = new Map<string, Verbatim>();

/** Returns ` and column = value` for each defined value, for the end of a where clause. */
export function equals(values: Readonly<Record<string, string | undefined>>): Statement<unknown> {
  let all = sql``;
  for (const [column, value] of Object.entries(values)) {
    if (value === undefined) continue;
    const name = compared_columns.get(column) ?? identifier(column);
    compared_columns.set(column, name);
    all = sql`${all} and ${name} = ${value}`;
  }
  return all;
}

/** Text of a statement, split at its parameters: there is one parameter between two consecutive chunks. */
class Template {
  readonly chunks: readonly string[];
  /** True if all text comes from one template in the source. The source bounds the number of such texts. */
  readonly #written: boolean;
  #text: string | undefined;
  #name: string | undefined;

  constructor(chunks: readonly string[], written: boolean) {
    this.chunks = chunks;
    this.#written = written;
  }

  get text(): string {
    if (this.#text === undefined) {
      let joined = this.chunks[0] ?? "";
      for (let i = 1; i < this.chunks.length; i += 1) joined += `$${i}${this.chunks[i]}`;
      this.#text = joined;
      this.#name = nameOf(joined, this.#written);
    }
    return this.#text;
  }

  get name(): string | undefined {
    return this.text === "" ? undefined : this.#name;
  }
}

/**
 * Number of composed texts that may be prepared. Each takes some 20 KB in the database per connection, for the connection's lifetime.
 * Beyond this number, texts are sent unnamed and parsed each time.
 */
export const COMPOSED_TEXTS_MAX = 500;
const composed_names = new Map<string, string>();

function nameOf(statement: string, written: boolean): string | undefined {
  if (written) return digest(statement);
  let name = composed_names.get(statement);
  if (name === undefined) {
    if (composed_names.size >= COMPOSED_TEXTS_MAX) return undefined;
    name = digest(statement);
    composed_names.set(statement, name);
  }
  return name;
}

/** Returns a hash of 43 characters. It fits PostgreSQL's limit for names, 63 bytes. */
const digest = (statement: string): string => hash("sha256", statement, "base64url");

class BoundStatement implements Statement<never> {
  readonly template: Template;
  readonly values: readonly unknown[];
  readonly row: RowShape | undefined;

  constructor(template: Template, values: readonly unknown[], shape: RowShape | undefined) {
    this.template = template;
    this.values = values;
    this.row = shape;
  }

  get text(): string {
    return this.template.text;
  }

  get name(): string | undefined {
    return this.template.name;
  }
}

/** A template literal as it was at its first use. `slots[i]` is the verbatim part at position i, or undefined for a parameter. */
interface Written {
  readonly template: Template;
  readonly slots: readonly (Verbatim | undefined)[];
}

const written_templates = new WeakMap<TemplateStringsArray, Written | Composed>();

/**
 * Cache of statements composed from other statements: a trie whose keys are the interpolated parts, in order. It saves joining and hashing
 * the text, which takes 5 µs for the query of a list.
 */
class Composed {
  template: Template | undefined;
  readonly #next = new WeakMap<object, Composed>();

  after(part: object): Composed {
    let next = this.#next.get(part);
    if (next === undefined) this.#next.set(part, (next = new Composed()));
    return next;
  }
}

/** The key in the trie of composed statements that stands for any parameter, regardless of its value. */
const PARAMETER = {};

function build(strings: TemplateStringsArray, values: readonly SqlValue[], shape: RowShape | undefined): BoundStatement {
  let written = written_templates.get(strings);
  if (written === undefined) {
    written = values.some((value) => value instanceof BoundStatement) ? new Composed() : write(strings, values);
    written_templates.set(strings, written);
  }
  if (written instanceof Composed) return composeKnown(written, strings, values, shape);
  const parameters: unknown[] = [];
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i];
    const slot = written.slots[i];
    if (slot !== undefined) {
      if (slot !== value) return compose(strings, values, shape);
    } else if (value instanceof BoundStatement || value instanceof Verbatim) {
      return compose(strings, values, shape);
    } else {
      parameters.push(bind(value, strings, i));
    }
  }
  return new BoundStatement(written.template, parameters, shape);
}

function write(strings: TemplateStringsArray, values: readonly SqlValue[]): Written {
  const slots = values.map((value) => (value instanceof Verbatim ? value : undefined));
  const chunks = [strings[0] ?? ""];
  slots.forEach((slot, i) => {
    const next = strings[i + 1] ?? "";
    if (slot === undefined) chunks.push(next);
    else chunks[chunks.length - 1] += slot.sql + next;
  });
  return { template: new Template(chunks, true), slots };
}

function composeKnown(
  start: Composed,
  strings: TemplateStringsArray,
  values: readonly SqlValue[],
  shape: RowShape | undefined,
): BoundStatement {
  let composed = start;
  const parameters: unknown[] = [];
  for (const [i, value] of values.entries()) {
    if (value instanceof BoundStatement) {
      composed = composed.after(value.template);
      parameters.push(...value.values);
    } else if (value instanceof Verbatim) composed = composed.after(value);
    else {
      composed = composed.after(PARAMETER);
      parameters.push(bind(value, strings, i));
    }
  }
  composed.template ??= compose(strings, values, undefined).template;
  return new BoundStatement(composed.template, parameters, shape);
}

function compose(strings: TemplateStringsArray, values: readonly SqlValue[], shape: RowShape | undefined): BoundStatement {
  const chunks = [strings[0] ?? ""];
  const parameters: unknown[] = [];
  values.forEach((value, i) => {
    if (value instanceof BoundStatement) {
      const [first = "", ...rest] = value.template.chunks;
      chunks[chunks.length - 1] += first;
      chunks.push(...rest);
      parameters.push(...value.values);
    } else if (value instanceof Verbatim) {
      chunks[chunks.length - 1] += value.sql;
    } else {
      parameters.push(bind(value, strings, i));
      chunks.push("");
    }
    chunks[chunks.length - 1] += strings[i + 1] ?? "";
  });
  return new BoundStatement(new Template(chunks, false), parameters, shape);
}

function bind(value: unknown, strings: TemplateStringsArray, index: number): unknown {
  switch (typeof value) {
    case "string":
    case "number":
    case "boolean":
      return value;
    case "bigint":
      return value.toString();
    case "object":
      if (value === null || value instanceof Uint8Array) return value;
      if (value instanceof JsonParameter) return value.json;
      if (value instanceof Date) {
        if (Number.isNaN(value.getTime())) throw refusal("an invalid date", strings, index);
        return value;
      }
      if (Array.isArray(value)) return value.map((item) => bind(item, strings, index));
      throw refusal("an object that is no SQL value; wrap it in json()", strings, index);
    default:
      throw refusal(typeof value, strings, index);
  }
}

function refusal(what: string, strings: TemplateStringsArray, index: number): Error {
  const before = (strings[index] ?? "").trim().slice(-60);
  return new Error(`SQL parameter after ${JSON.stringify(before)} is ${what}`);
}
