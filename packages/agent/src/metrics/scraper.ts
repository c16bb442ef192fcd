import { get, type IncomingMessage } from "node:http";
import { type Activity, type Clock, timeLimit } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { ScrapeAddress } from "../config-file/robot-config.ts";
import { errorText } from "../disk/write-atomically.ts";
import { ExpositionParser } from "./exposition.ts";
import type { SampleSource } from "./sample-source.ts";

/** Maximum bytes of a response. The rest is not read; the samples before it are collected. */
export const EXPOSITION_BYTES_MAX = 10 * 1024 * 1024;
/** Maximum time of a request until its response is complete. */
export const SCRAPE_TIMEOUT_MS = 5_000;
/** Pause after a response that was too large, because reading 10 MiB takes up to a second of processor time. */
export const OVERSIZE_PAUSE_MS = 300_000;

interface ScraperOptions {
  address: ScrapeAddress;
  source: SampleSource;
  clock: Clock;
  /** Counts a request as pending work. */
  activity: Activity;
  log: Pick<Logger, "info" | "warn">;
}

/** Collects the metrics that a service serves in the text format of Prometheus. */
export class Scraper {
  readonly source: SampleSource;
  readonly #options: ScraperOptions;
  readonly #stopping = new AbortController();
  /** Why the last request failed; undefined: it succeeded, or there was none. */
  #failure: string | undefined;
  #has_answered = false;
  #is_busy = false;
  #paused_until = -Infinity;

  constructor(options: ScraperOptions) {
    this.source = options.source;
    this.#options = options;
  }

  /** Whether the last request succeeded; undefined before the first one has ended. */
  get is_up(): boolean | undefined {
    return this.#failure === undefined ? this.#has_answered || undefined : false;
  }

  stop(): void {
    this.#stopping.abort();
  }

  /** Requests the metrics once. Never throws. Does nothing while a request is under way, and after a response that was too large. */
  async scrape(): Promise<void> {
    const { clock, activity } = this.#options;
    if (this.#is_busy || this.#stopping.signal.aborted || clock.monotonic() < this.#paused_until) return;
    this.#is_busy = true;
    const ended = activity.begin();
    const late = new Error(`no complete response within ${SCRAPE_TIMEOUT_MS / 1_000} s`);
    using limit = timeLimit(clock, SCRAPE_TIMEOUT_MS, late, this.#stopping.signal);
    try {
      await this.#read(limit.signal);
      this.#ended(undefined);
    } catch (error) {
      this.#ended(errorText(limit.expired ? late : error));
    } finally {
      this.#is_busy = false;
      ended();
    }
  }

  #ended(failure: string | undefined): void {
    const { address, log } = this.#options;
    if (this.#stopping.signal.aborted) return;
    const before = this.#failure;
    this.#has_answered = true;
    this.#failure = failure;
    if (failure === before) return;
    const { instance } = address;
    if (failure === undefined) log.info({ instance }, "metrics of a service can be read again");
    else log.warn({ instance, reason: failure }, "metrics of a service cannot be read");
  }

  async #read(signal: AbortSignal): Promise<void> {
    const { address, clock, source } = this.#options;
    const time = clock.monotonic();
    const response = await request(address, signal);
    try {
      if (response.statusCode !== 200) throw new Error(`status ${response.statusCode ?? 0}`);
      const parser = new ExpositionParser({
        is_open_metrics: isOpenMetrics(response.headers["content-type"]),
        sample: (sample) => void source.take(sample, time),
        invalid: (line) => source.drop("invalid", line),
      });
      let bytes = 0;
      for await (const chunk of response as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > EXPOSITION_BYTES_MAX) {
          this.#paused_until = clock.monotonic() + OVERSIZE_PAUSE_MS;
          source.drop("size", address.instance);
          throw new Error(`the response has more than ${EXPOSITION_BYTES_MAX} bytes`);
        }
        parser.write(chunk);
      }
      parser.end();
    } finally {
      response.destroy();
    }
  }
}

export const isOpenMetrics = (content_type: string | undefined): boolean =>
  content_type?.startsWith("application/openmetrics-text") === true;

/** Sends one GET. A new connection each time, since an existing one could belong to an old process of the service. */
function request(address: ScrapeAddress, signal: AbortSignal): Promise<IncomingMessage> {
  const { path } = address;
  const place = "socket" in address ? { socketPath: address.socket } : { host: address.host, port: address.port };
  // Not OpenMetrics, which a service would prefer to send if it is accepted: its lines are longer, and have nothing that is collected.
  const headers = { accept: "text/plain;version=0.0.4", "user-agent": "roamfleet-agent" };
  return new Promise((resolve, reject) => {
    get({ ...place, path, headers, agent: false, signal }, resolve).once("error", reject);
  });
}
