import { systemClock, type Timer } from "@robofleet/clock";
import type { ClientConfig } from "pg";
import type { EngineLog } from "../log.ts";
import { Connection } from "./connection.ts";
import { ConnectionLost } from "./errors.ts";

const CONNECT_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 60_000;
const SWEEP_MS = 1_000;

interface PoolOptions {
  config: ClientConfig;
  /** Connections at most. */
  max: number;
  /** A statement that has no answer after this long takes its connection with it. */
  answer_timeout_ms: number;
  /** Makes a new connection ready. */
  prepare: (connection: Connection) => Promise<unknown>;
  log: EngineLog;
}

interface Waiting {
  resolve: (connection: Connection) => void;
  reject: (error: Error) => void;
  since: number;
}

/** Connections that are opened when they are needed and lent to one borrower at a time. One timer bounds all waiting. */
export class ConnectionPool {
  readonly #options: PoolOptions;
  readonly #open = new Set<Connection>();
  /** The one that was used last stands last. */
  readonly #idle: Connection[] = [];
  readonly #waiting: Waiting[] = [];
  readonly #sweeper: Timer;
  #opening = 0;
  #ended = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    // Not the plane's clock: the database's time is real also where a test holds time still.
    this.#sweeper = systemClock.every(SWEEP_MS, () => this.#sweep());
  }

  /** Borrowers that wait for a connection. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Connections that are lent or being opened. */
  get in_use(): number {
    return this.#open.size - this.#idle.length + this.#opening;
  }

  /** A free connection, best one that serves `org_id` already; else a new one, else the next to come back. */
  borrow(org_id: string | undefined): Connection | Promise<Connection> {
    if (this.#ended) throw new ConnectionLost("the database connections are closed");
    const at = org_id === undefined ? -1 : this.#idle.findLastIndex(({ serves }) => serves === org_id);
    const free = at < 0 ? this.#idle.pop() : this.#idle.splice(at, 1)[0];
    if (free !== undefined) return free;
    if (this.#open.size + this.#opening < this.#options.max) return this.#add();
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject, since: systemClock.monotonic() }));
  }

  giveBack(connection: Connection): void {
    if (connection.dead || this.#ended) this.#remove(connection);
    else this.#lend(connection);
  }

  end(): void {
    this.#ended = true;
    this.#sweeper.cancel();
    for (const connection of this.#open) connection.end();
    this.#idle.length = 0;
  }

  #lend(connection: Connection): void {
    const next = this.#waiting.shift();
    if (next !== undefined) return next.resolve(connection);
    connection.since = systemClock.monotonic();
    this.#idle.push(connection);
  }

  async #add(): Promise<Connection> {
    let connection: Connection | undefined;
    try {
      connection = await this.#connect();
      // From here on the sweeper bounds what it is asked.
      this.#open.add(connection);
      await this.#options.prepare(connection);
      if (this.#ended) throw new ConnectionLost("the database connections are closed");
      return connection;
    } catch (error) {
      if (connection === undefined) this.#openNext();
      else this.#remove(connection);
      throw error;
    }
  }

  async #connect(): Promise<Connection> {
    this.#opening += 1;
    try {
      return await Connection.open({ ...this.#options.config, connectionTimeoutMillis: CONNECT_TIMEOUT_MS }, this.#lost);
    } finally {
      this.#opening -= 1;
    }
  }

  readonly #lost = (connection: Connection, error: Error): void => {
    if (!this.#ended) this.#options.log.warn({ err: error }, "a database connection broke");
    const at = this.#idle.indexOf(connection);
    if (at < 0) return; // Its borrower learns it from what it asked, and gives it back.
    this.#idle.splice(at, 1);
    this.#remove(connection);
  };

  #remove(connection: Connection): void {
    this.#open.delete(connection);
    connection.end();
    this.#openNext();
  }

  /** A place is free: for whoever waits longest a new connection is opened. */
  #openNext(): void {
    const next = this.#ended ? undefined : this.#waiting.shift();
    if (next !== undefined) this.#add().then(next.resolve, next.reject);
  }

  #sweep(): void {
    const now = systemClock.monotonic();
    for (const connection of this.#open)
      if (connection.owes && now - connection.since > this.#options.answer_timeout_ms) connection.destroy();
    while ((this.#waiting[0]?.since ?? now) < now - CONNECT_TIMEOUT_MS)
      this.#waiting.shift()?.reject(new ConnectionLost("no database connection became free in time"));
    while ((this.#idle[0]?.since ?? now) < now - IDLE_TIMEOUT_MS) {
      const [stale] = this.#idle.splice(0, 1);
      if (stale !== undefined) this.#remove(stale);
    }
  }
}
