import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { Agent, request as requestPlain } from "node:http";
import { Agent as TlsAgent, request as requestTls } from "node:https";
import path from "node:path";

/** Options of the slow clients' process, as JSON in its first argument. */
export interface SlowOrder {
  host: string;
  port: number;
  /** Certificate authority of a server with TLS. */
  ca: string | undefined;
  token: string;
  upload_path: string;
  count: number;
  per_second: number;
}

/** Number of clients by kind, and the longest time until the server closed one of that kind. */
export type SlowReport = Record<string, { count: number; not_opened: number; longest_ms: number; answers: string[] }>;

type Word = { open: number } | { report: SlowReport };

/** Clients that stall, in a separate process so that their CPU time does not affect the measurement. */
export class SlowClients implements AsyncDisposable {
  readonly #child: ChildProcess;
  /** Resolves with the number of open clients when all have been opened. */
  readonly opened: Promise<number>;
  /** Resolves when the server has closed all clients. */
  readonly report: Promise<SlowReport>;

  constructor(order: SlowOrder) {
    this.#child = fork(path.join(import.meta.dirname, "slow-clients-process.ts"), [JSON.stringify(order)], { execArgv: [] });
    const opened = Promise.withResolvers<number>();
    const report = Promise.withResolvers<SlowReport>();
    this.#child.on("message", (word: Word) => ("open" in word ? opened.resolve(word.open) : report.resolve(word.report)));
    this.#child.on("exit", (code) => {
      const gone = new Error(`the slow clients ended with ${code}`);
      opened.reject(gone);
      report.reject(gone);
    });
    this.opened = opened.promise;
    this.report = report.promise;
    this.report.catch(() => {});
    this.opened.catch(() => {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill("SIGKILL");
    await once(this.#child, "exit");
  }
}

/** Number of sockets of a process. */
export const socketsOf = (pid: number): number =>
  readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith("socket:");
    } catch {
      return false;
    }
  }).length;

export interface ProbeTarget {
  url: string;
  ca: string | undefined;
  token: string;
}

/** Sends requests at a steady rate, whether or not responses arrive, and measures their times. */
export class Probe implements Disposable {
  readonly #target: ProbeTarget;
  readonly #agent: Agent;
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #waiting = new Set<Promise<void>>();
  #times_ms: number[] = [];
  #asked = 0;
  readonly statuses = new Map<number, number>();

  constructor(target: ProbeTarget, per_second: number) {
    this.#target = target;
    const options = { keepAlive: true, maxSockets: 32 };
    this.#agent = target.ca === undefined ? new Agent(options) : new TlsAgent({ ...options, ca: target.ca });
    this.#timer = setInterval(() => this.#ask(), 1_000 / per_second);
  }

  /** Resolves with the times since the last call when all requests have been answered. */
  async take(): Promise<number[]> {
    await Promise.all(this.#waiting);
    return this.#times_ms.splice(0);
  }

  /** Lists objects, and with every fourth request creates one, which needs a database write. */
  #ask(): void {
    this.#asked += 1;
    const writes = this.#asked % 4 === 0;
    const body = JSON.stringify({ name: `probe ${this.#asked} ${process.pid} ${performance.now()}` });
    const began_at = performance.now();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(promise);
    this.#send(writes ? body : undefined, (status) => {
      this.#times_ms.push(performance.now() - began_at);
      this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
      this.#waiting.delete(promise);
      resolve();
    });
  }

  #send(body: string | undefined, done: (status: number) => void): void {
    const sent = (this.#target.ca === undefined ? requestPlain : requestTls)(
      `${this.#target.url}/api/sites${body === undefined ? "?limit=10" : ""}`,
      {
        method: body === undefined ? "GET" : "POST",
        agent: this.#agent,
        headers: {
          authorization: `Bearer ${this.#target.token}`,
          ...(body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
        },
      },
      (response) => response.resume().on("end", () => done(response.statusCode ?? 0)),
    );
    // The server may close a keep-alive connection as it is reused: HTTP requires a retry.
    sent.on("error", () => (sent.reusedSocket ? this.#send(body, done) : done(0)));
    sent.end(body);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#agent.destroy();
  }
}

/** Returns the value that a `share` of the values do not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}
