import { systemClock } from "@roamfleet/clock";
import { Client, type ClientConfig, Query, type QueryResult } from "pg";
import type { Statement } from "../../kernel/sql.ts";
import { ConnectionLost } from "./errors.ts";

/** A statement to send. Without a name it is not prepared. */
export type Sent = Pick<Statement<unknown>, "text" | "name" | "values">;

/**
 * A connection with pipelining: statements do not wait for earlier responses. It uses the driver's query object directly, because the
 * driver's pool, timers and copies cost 9 of 28 µs of CPU per query.
 */
export class Connection {
  readonly #client: Client;
  /** The org that the session is set to; undefined: unknown. */
  serves: string | undefined;
  /** The connection broke or was closed. */
  dead = false;
  /** Monotonic milliseconds since when it waits for a response, or has been idle. */
  since = systemClock.monotonic();
  owes = false;

  private constructor(config: ClientConfig, lost: (connection: Connection, error: Error) => void) {
    this.#client = new Client({ ...config, pipeline: true });
    // Without a listener, a connection that the server terminates ends the whole process.
    this.#client.on("error", (error) => {
      this.dead = true;
      lost(this, error);
    });
    this.#client.on("end", () => (this.dead = true));
  }

  /** Connects. `lost` is called when the connection breaks, in use or idle. */
  static async open(config: ClientConfig, lost: (connection: Connection, error: Error) => void): Promise<Connection> {
    const connection = new Connection(config, lost);
    await connection.#client.connect();
    return connection;
  }

  /**
   * Sends statements in one write and returns the result of the last one. If any fails, rejects with the first error after all have
   * completed. Later statements were already sent, and run independently of it. If a statement of `preface` fails (setting the org,
   * beginning a transaction), the effect of the others is unknown: rejects with ConnectionLost.
   */
  async ask(statements: readonly Sent[], preface: readonly Sent[] = []): Promise<QueryResult> {
    this.since = systemClock.monotonic();
    this.owes = true;
    try {
      return await this.#send(preface.length === 0 ? statements : [...preface, ...statements], preface.length);
    } catch (error) {
      // The error comes from the socket, so its stack does not contain the caller.
      if (error instanceof Error) Error.captureStackTrace(error);
      throw error;
    } finally {
      this.owes = false;
    }
  }

  #send(statements: readonly Sent[], preface: number): Promise<QueryResult> {
    const { stream } = this.#client.connection;
    return new Promise((resolve, reject) => {
      let answered = 0;
      let failure: Error | undefined;
      const onAnswer = (error: Error | undefined, result: QueryResult): void => {
        answered += 1;
        if (error) failure ??= answered > preface ? error : new ConnectionLost("the connection was not ready", { cause: error });
        if (answered < statements.length) return;
        if (failure === undefined) resolve(result);
        else reject(failure);
      };
      stream.cork();
      try {
        for (const { text, name, values } of statements) {
          const query: Query & { name?: string } = new Query(text, values as unknown[], onAnswer);
          if (name !== undefined) query.name = name;
          this.#client.query(query);
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
