import { systemClock } from "@roamfleet/clock";
import { Client, type ClientConfig, Query, type QueryResult } from "pg";
import type { Statement } from "../../kernel/sql.ts";
import { ConnectionLost } from "./errors.ts";

/** What goes over a connection; without a name it is not kept prepared. */
export type Sent = Pick<Statement<unknown>, "text" | "name" | "values">;

/**
 * A connection on which a statement does not wait for the answer to the one before. By hand around the driver's own query
 * object: its pool, its timers and its copies of what it is handed cost 9 of 28 µs of CPU a query.
 */
export class Connection {
  readonly #client: Client;
  /** The org that it was told to serve last; undefined: nobody knows. */
  serves: string | undefined;
  /** It broke or was ended. */
  dead = false;
  /** Since when it owes an answer, or since when it has been idle: monotonic milliseconds. */
  since = systemClock.monotonic();
  owes = false;

  private constructor(config: ClientConfig, lost: (connection: Connection, error: Error) => void) {
    this.#client = new Client({ ...config, pipeline: true });
    // Without a listener the server's "terminating connection" ends the whole process.
    this.#client.on("error", (error) => {
      this.dead = true;
      lost(this, error);
    });
    this.#client.on("end", () => (this.dead = true));
  }

  /** Connects. `lost` is told when the connection breaks, in use or idle. */
  static async open(config: ClientConfig, lost: (connection: Connection, error: Error) => void): Promise<Connection> {
    const connection = new Connection(config, lost);
    await connection.#client.connect();
    return connection;
  }

  /**
   * Sends statements in one write and answers the result of the last; rejects with the error of the first that failed, when
   * all have been answered. Each stands for itself: what follows one that failed has been sent already. After a failure of
   * `preface` (whom the connection serves, a transaction's beginning) nobody can say what the statements did: ConnectionLost.
   */
  async ask(statements: readonly Sent[], preface: readonly Sent[] = []): Promise<QueryResult> {
    this.since = systemClock.monotonic();
    this.owes = true;
    try {
      return await this.#send(preface.length === 0 ? statements : [...preface, ...statements], preface.length);
    } catch (error) {
      // From where it was thrown, the socket, no way leads back to who asked.
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

  /** Cuts it: whatever it owes fails. */
  destroy(): void {
    this.dead = true;
    this.#client.connection.stream.destroy();
  }

  /** Says goodbye, without waiting for the socket's end. */
  end(): void {
    this.dead = true;
    this.#client.end(() => {});
  }
}
