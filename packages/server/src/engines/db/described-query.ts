/* oxlint-disable no-underscore-dangle -- these are names of the driver's own */
import { type CustomTypesConfig, Query, type QueryResult } from "pg";

/** The columns of a result as the driver prepares them for parsing rows. */
interface Columns {
  fields: unknown;
  _parsers: unknown;
  _prebuiltEmptyResultObject: unknown;
}

/** The driver's connection: it sends the messages of a statement. */
type DriverConnection = object;

/** The parts of the driver's query, version 8, on which this file relies. */
interface DriverQuery {
  name: string | undefined;
  readonly _result: Columns;
  /** Whether the result collects the rows. The driver sets it when it receives the columns. */
  _accumulateRows: boolean;
  submit(connection: DriverConnection): Error | null;
  hasBeenParsed(connection: DriverConnection): boolean | undefined;
  prepare(connection: DriverConnection): void;
  handleRowDescription(message: unknown): void;
  handleCommandComplete(message: unknown, connection: DriverConnection): void;
}

type OnAnswer = (error: Error | undefined, result: QueryResult) => void;
const Base = Query as unknown as new (
  config: string | { text: string; types: CustomTypesConfig },
  values: readonly unknown[],
  onAnswer: OnAnswer,
) => DriverQuery;

/**
 * The columns of prepared statements, by name; null for a statement without a result. All connections of a pool share them: a connection
 * asks for them once, and PostgreSQL refuses to run a statement whose columns have changed since it was prepared.
 */
export type Descriptions = Map<string, Columns | null>;

/** Wraps a connection so that it never asks for the columns of a statement (Describe message). */
export const withoutDescribe = (connection: DriverConnection): DriverConnection =>
  Object.create(connection, { describe: { value: () => {} } }) as DriverConnection;

/**
 * A query that asks for the columns of a prepared statement once per connection. The driver asks in every run: the database then sends the
 * names and types of all columns, and the driver finds the parser of each.
 */
export class DescribedQuery extends Base {
  readonly #known: Descriptions;
  readonly #undescribed: DriverConnection;

  constructor(
    { text, name, types }: { text: string; name: string | undefined; types: CustomTypesConfig | undefined },
    values: readonly unknown[],
    { known, undescribed }: { known: Descriptions; undescribed: DriverConnection },
    onAnswer: OnAnswer,
  ) {
    super(types === undefined ? text : { text, types }, values, onAnswer);
    this.name = name;
    this.#known = known;
    this.#undescribed = undescribed;
  }

  override prepare(connection: DriverConnection): void {
    const columns = this.name !== undefined && this.hasBeenParsed(connection) ? this.#known.get(this.name) : undefined;
    if (columns === undefined) return super.prepare(connection);
    if (columns !== null) Object.assign(this._result, columns);
    this._accumulateRows = true;
    super.prepare(this.#undescribed);
  }

  override handleRowDescription(message: unknown): void {
    super.handleRowDescription(message);
    const { fields, _parsers, _prebuiltEmptyResultObject } = this._result;
    if (this.name !== undefined) this.#known.set(this.name, { fields, _parsers, _prebuiltEmptyResultObject });
  }

  override handleCommandComplete(message: unknown, connection: DriverConnection): void {
    super.handleCommandComplete(message, connection);
    if (this.name !== undefined && !this.#known.has(this.name)) this.#known.set(this.name, null);
  }
}
