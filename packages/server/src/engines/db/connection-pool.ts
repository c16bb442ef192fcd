import { systemClock, type Timer } from "@roamfleet/clock";
import { Client, type ClientConfig, type QueryResult } from "pg";
import { FairQueue } from "../../kernel/fair-queue.ts";
import type { Statement } from "../../kernel/sql.ts";
import type { EngineLog } from "../log.ts";
import { DescribedQuery, type Descriptions, withoutDescribe } from "./described-query.ts";
import { ConnectionLost } from "./errors.ts";
import { wireValueParsers } from "./values.ts";

/** A statement to send. A statement with a name is prepared once per connection. */
export type Sent = Pick<Statement<unknown>, "text" | "name" | "values"> & Partial<Pick<Statement<unknown>, "row">>;

/** The columns of statements whose times are parsed, and of those whose times stay text. */
interface Described {
  parsed: Descriptions;
  in_wire_form: Descriptions;
}

/**
 * A connection with pipelining: a statement is sent without waiting for earlier responses. It bypasses the driver's pool and query method,
 * whose timers and copies cost 9 of the 28 µs of CPU per query.
 */
export class Connection {
  readonly #client: Client;
  readonly #described: Described;
  #undescribed: object | undefined;
  /** Id of the org whose rows the session can access; undefined if the session has no org or its org is unknown. */
  serves: string | undefined;
  /** True when the connection is broken or closed. */
  dead = false;
  /** When the last response or request was, or the idle time began (monotonic milliseconds). */
  since = systemClock.monotonic();
  /** Number of calls of `ask` that wait for responses. */
  unanswered = 0;

  private constructor(config: ClientConfig, described: Described, lost: (connection: Connection, error: Error) => void) {
    this.#described = described;
    this.#client = new Client({ ...config, pipeline: true });
    // If the server terminates the connection and no `error` listener exists, the process crashes.
    this.#client.on("error", (error) => {
      this.dead = true;
      lost(this, error);
    });
    this.#client.on("end", () => (this.dead = true));
  }

  /** Connects. `lost` is called when the connection breaks, whether it is in use or idle. */
  static async open(config: ClientConfig, described: Described, lost: (connection: Connection, error: Error) => void): Promise<Connection> {
    const connection = new Connection(config, described, lost);
    await connection.#client.connect();
    return connection;
  }

  /**
   * Sends all statements in one write and returns the result of the last one. If any statement fails, waits for all and rejects with the
   * first error. A failure does not stop the statements after it, because they are already sent. `preface` prepares the session (sets the
   * org, begins a transaction). If it fails, the effect of `statements` is unknown, so the call rejects with ConnectionLost.
   */
  async ask(statements: readonly Sent[], preface: readonly Sent[] = []): Promise<QueryResult> {
    this.since = systemClock.monotonic();
    this.unanswered += 1;
    try {
      return await this.#send(preface.length === 0 ? statements : [...preface, ...statements], preface.length);
    } catch (error) {
      // The error was created in a socket callback, so its stack lacks the caller. Replaces it with a stack that contains the caller.
      if (error instanceof Error) Error.captureStackTrace(error);
      throw error;
    } finally {
      this.unanswered -= 1;
    }
  }

  #send(statements: readonly Sent[], preface: number): Promise<QueryResult> {
    const { stream } = this.#client.connection;
    const undescribed = (this.#undescribed ??= withoutDescribe(this.#client.connection));
    return new Promise((resolve, reject) => {
      let answered = 0;
      let failure: Error | undefined;
      const onAnswer = (error: Error | undefined, result: QueryResult): void => {
        answered += 1;
        this.since = systemClock.monotonic();
        if (error) failure ??= answered > preface ? error : new ConnectionLost("the connection was not ready", { cause: error });
        if (answered < statements.length) return;
        if (failure === undefined) resolve(result);
        else reject(failure);
      };
      stream.cork();
      try {
        for (const { text, name, values, row } of statements) {
          const in_wire_form = row?.has_text_times === true;
          const types = in_wire_form ? wireValueParsers : undefined;
          const known = in_wire_form ? this.#described.in_wire_form : this.#described.parsed;
          this.#client.query(new DescribedQuery({ text, name, types }, values, { known, undescribed }, onAnswer));
        }
      } finally {
        stream.uncork();
      }
    });
  }

  /** Closes the socket. Running statements fail. */
  destroy(): void {
    this.dead = true;
    this.#client.connection.stream.destroy();
  }

  /** Closes the connection gracefully, without waiting for the socket. */
  end(): void {
    this.dead = true;
    this.#client.end(() => {});
  }
}

const CONNECT_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 60_000;
const SWEEP_MS = 1_000;

interface PoolOptions {
  config: ClientConfig;
  /** Maximum connections. */
  max: number;
  /** Maximum connections that one org may use at the same time. It reserves connections for other orgs. */
  max_per_org: number;
  /** Timeout of a statement. If no response arrives in time, the statement fails and its connection is closed. */
  answer_timeout_ms: number;
  /** Sends the session settings on a new connection. */
  prepare: (connection: Connection) => Promise<unknown>;
  log: EngineLog;
}

interface Waiting {
  resolve: (connection: Connection) => void;
  reject: (error: Error) => void;
  since: number;
}

/**
 * Maximum waiting callers per org. Further callers are rejected immediately, because they would time out anyway. A limit of 2,000 was too
 * low: 5,000 robots that finish a deployment at the same time exceed it, although all of their statements finish within a second.
 */
const WAITING_PER_ORG_MAX = 10_000;
/** Key of work that does not belong to one org. Such work has no limit per org. */
const NO_ORG = "";

/**
 * A pool of connections. It opens connections on demand and lends each to one caller at a time. When all are in use, waiting orgs are
 * served round robin: between two callers of an org, every other org gets at most one connection. One timer enforces all timeouts.
 */
export class ConnectionPool {
  readonly #options: PoolOptions;
  readonly #open = new Set<Connection>();
  /** Sorted by last use; the most recently used connection is last. */
  readonly #idle: Connection[] = [];
  readonly #waiting = new FairQueue<Waiting>();
  /** Number of connections that are lent or being opened, by org id. */
  readonly #in_use = new Map<string, number>();
  readonly #sweeper: Timer;
  readonly #described: Described = { parsed: new Map(), in_wire_form: new Map() };
  #opening = 0;
  #ended = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    // Uses the system clock, because database timeouts must elapse even if a test stops the simulated clock.
    this.#sweeper = systemClock.every(SWEEP_MS, () => this.#sweep());
  }

  /** Number of callers that wait for a connection. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Number of connections that are lent or being opened. */
  get in_use(): number {
    return this.#open.size - this.#idle.length + this.#opening;
  }

  /** Lends an idle connection, preferably one already set to `org_id`. If none is idle, opens one, or waits if `max` is reached. */
  borrow(org_id: string | undefined): Connection | Promise<Connection> {
    if (this.#ended) throw new ConnectionLost("the database connections are closed");
    const key = org_id ?? NO_ORG;
    if (this.#mayUse(key)) {
      const at = org_id === undefined ? -1 : this.#idle.findLastIndex(({ serves }) => serves === org_id);
      const free = at < 0 ? this.#idle.pop() : this.#idle.splice(at, 1)[0];
      if (free !== undefined) {
        this.#count(key);
        return free;
      }
      if (this.#open.size + this.#opening < this.#options.max) return this.#add(key);
    }
    if (org_id !== undefined && this.#waiting.sizeOf(key) >= WAITING_PER_ORG_MAX)
      throw new ConnectionLost("too many queries of the org are waiting for a database connection");
    return new Promise((resolve, reject) => this.#waiting.push(key, { resolve, reject, since: systemClock.monotonic() }));
  }

  /** Returns a connection to the pool. It was borrowed for `org_id`. */
  release(connection: Connection, org_id: string | undefined): void {
    this.#uncount(org_id ?? NO_ORG);
    if (connection.dead || this.#ended) return this.#remove(connection);
    const next = this.#nextWaiting();
    if (next !== undefined) {
      this.#count(next.key);
      return next.item.resolve(connection);
    }
    connection.since = systemClock.monotonic();
    this.#idle.push(connection);
  }

  end(): void {
    this.#ended = true;
    this.#sweeper.cancel();
    for (const connection of this.#open) connection.end();
    this.#idle.length = 0;
  }

  readonly #mayUse = (key: string): boolean => key === NO_ORG || (this.#in_use.get(key) ?? 0) < this.#options.max_per_org;

  #nextWaiting(): { key: string; item: Waiting } | undefined {
    return this.#waiting.take(this.#mayUse);
  }

  #count(key: string): void {
    this.#in_use.set(key, (this.#in_use.get(key) ?? 0) + 1);
  }

  #uncount(key: string): void {
    const left = (this.#in_use.get(key) ?? 1) - 1;
    if (left > 0) this.#in_use.set(key, left);
    else this.#in_use.delete(key);
  }

  /** Opens a connection for org `key`. It counts as in use immediately. */
  async #add(key: string): Promise<Connection> {
    this.#count(key);
    let connection: Connection | undefined;
    try {
      connection = await this.#connect();
      // Registers the connection, so that the sweeper enforces the timeouts of its statements, including those of `prepare`.
      this.#open.add(connection);
      await this.#options.prepare(connection);
      if (this.#ended) throw new ConnectionLost("the database connections are closed");
      return connection;
    } catch (error) {
      this.#uncount(key);
      if (connection === undefined) this.#openNext();
      else this.#remove(connection);
      throw error;
    }
  }

  async #connect(): Promise<Connection> {
    this.#opening += 1;
    try {
      return await Connection.open({ ...this.#options.config, connectionTimeoutMillis: CONNECT_TIMEOUT_MS }, this.#described, this.#lost);
    } finally {
      this.#opening -= 1;
    }
  }

  readonly #lost = (connection: Connection, error: Error): void => {
    if (!this.#ended) this.#options.log.warn({ err: error }, "a database connection was lost");
    const at = this.#idle.indexOf(connection);
    if (at < 0) return; // The connection is in use: its statement fails, and the caller that borrowed it releases it.
    this.#idle.splice(at, 1);
    this.#remove(connection);
  };

  #remove(connection: Connection): void {
    this.#open.delete(connection);
    connection.end();
    this.#openNext();
  }

  /** Opens a connection for the next waiting caller, because a closed connection has made room. */
  #openNext(): void {
    const next = this.#ended ? undefined : this.#nextWaiting();
    if (next !== undefined) this.#add(next.key).then(next.item.resolve, next.item.reject);
  }

  #sweep(): void {
    const now = systemClock.monotonic();
    for (const connection of this.#open)
      if (connection.unanswered > 0 && now - connection.since > this.#options.answer_timeout_ms) connection.destroy();
    for (const late of this.#waiting.takeWhile(({ since }) => since < now - CONNECT_TIMEOUT_MS))
      late.reject(new ConnectionLost("no database connection became free in time"));
    while ((this.#idle[0]?.since ?? now) < now - IDLE_TIMEOUT_MS) {
      const [stale] = this.#idle.splice(0, 1);
      if (stale !== undefined) this.#remove(stale);
    }
  }
}
