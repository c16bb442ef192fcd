import { type Clock, within, timeLimit } from "@roamfleet/clock";
import type { RosAdapterState } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { errorText } from "../disk/write-atomically.ts";
import { backoffMs } from "../link/backoff.ts";
import {
  type FindRosAdapter,
  ROS_ASK_TIMEOUT_MS,
  ROS_FIND_TIMEOUT_MS,
  type RosAdapter,
  type RosAdapterName,
  type RosTopic,
} from "./adapter.ts";
import type { RosSettings } from "./settings.ts";
import { unlessAborted } from "../runtime/failure.ts";

const REASON_CHARACTERS_MAX = 500;

export interface AdapterStatus {
  name: RosAdapterName;
  state: RosAdapterState;
  /** The ROS distribution; present only if the adapter is connected. */
  distro?: string | null;
  reason?: string;
}

interface AdapterRunnerOptions {
  name: RosAdapterName;
  find: FindRosAdapter;
  settings: RosSettings;
  clock: Clock;
  log: Logger;
  /** Returns whether this adapter may run now. Call `reconsider` when the answer may have changed. */
  isNeeded: () => boolean;
  /** Called when the adapter connects or is lost, and after each search. */
  changed: () => void;
}

/**
 * Runs one adapter independently of all others. Searches for it, uses it until the connection is lost, then searches again with backoff.
 */
export class AdapterRunner {
  readonly name: RosAdapterName;
  /** Whether a search has been completed since the start. */
  has_searched = false;
  readonly topics: LatestAnswer<RosTopic>;
  readonly nodes: LatestAnswer<string>;
  readonly #options: AdapterRunnerOptions;
  readonly #stopping = new AbortController();
  #adapter: RosAdapter | undefined;
  #search: Promise<RosAdapter | undefined> | undefined;
  #running: Promise<void> | undefined;
  /** Result of the latest search, or why the adapter was lost. */
  #result: Pick<AdapterStatus, "state" | "reason"> = { state: "searching" };
  /** Wakes the runner from the wait before the next search. */
  #wake: () => void = () => {};

  constructor(options: AdapterRunnerOptions) {
    const { name, clock, log } = options;
    this.#options = options;
    this.name = name;
    const failed = (error: unknown): void => log.warn({ adapter: name, reason: errorText(error) }, "ROS did not answer");
    this.topics = new LatestAnswer({ clock, failed, ask: () => this.#adapter?.topics() ?? [] });
    this.nodes = new LatestAnswer({ clock, failed, ask: () => this.#adapter?.nodes() ?? [] });
  }

  start(): void {
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    await this.#adapter?.close();
    await (this.#running ?? this.#search);
  }

  /** Returns the adapter; undefined while it is not connected. */
  get adapter(): RosAdapter | undefined {
    return this.#adapter;
  }

  get status(): AdapterStatus {
    const { name } = this.#options;
    if (this.#adapter !== undefined) return { name, state: "connected", distro: this.#adapter.distro };
    return this.#options.isNeeded() ? { name, ...this.#result } : { name, state: "standby" };
  }

  /**
   * Returns whether the adapter's latest topic list contains the topic; if a type is given, with that type. Returns false if the adapter is
   * not connected.
   */
  offers(topic: string, type: string | undefined): boolean {
    return this.topics.latest.some((one) => one.name === topic && (type === undefined || one.type === type));
  }

  /**
   * Must be called when `isNeeded` may have changed. Closes the adapter if it is no longer needed; wakes it from standby if it is needed
   * again.
   */
  reconsider(): void {
    if (this.#options.isNeeded()) {
      if (this.#result.state === "standby") this.#wake();
    } else void this.#adapter?.close().catch(() => {});
  }

  /**
   * Searches for the adapter now, unless it is connected or not needed. Joins a search in progress. Resolves to the adapter, or to
   * undefined if it was not found.
   */
  search(): Promise<RosAdapter | undefined> {
    if (this.#adapter !== undefined || this.#stopping.signal.aborted || !this.#options.isNeeded()) return Promise.resolve(this.#adapter);
    this.#search ??= this.#searchOnce().then((adapter) => {
      this.#search = undefined;
      this.has_searched = true;
      this.#adapter = adapter;
      if (adapter !== undefined) this.#options.log.info({ adapter: adapter.name, distro: adapter.distro }, "ROS found");
      this.#wake();
      this.#options.changed();
      return adapter;
    });
    return this.#search;
  }

  async #run(): Promise<void> {
    const { clock, isNeeded } = this.#options;
    for (let failures = 0; !this.#stopping.signal.aborted;) {
      const is_needed = isNeeded();
      if (!is_needed) this.#result = { state: "standby" };
      const adapter = await this.search();
      failures = adapter === undefined ? failures + 1 : 0;
      if (adapter !== undefined) await this.#untilGone(adapter);
      if (this.#stopping.signal.aborted) return;
      const awake = new AbortController();
      this.#wake = () => awake.abort();
      await clock.sleep(backoffMs(clock, failures), awake.signal);
    }
  }

  async #untilGone(adapter: RosAdapter): Promise<void> {
    const { log, isNeeded, changed, name } = this.#options;
    const reason = (await adapter.gone).slice(0, REASON_CHARACTERS_MAX);
    const is_needed = isNeeded();
    this.#adapter = undefined;
    this.#result = is_needed ? { state: "lost", reason } : { state: "standby" };
    for (const list of [this.topics, this.nodes]) list.clear();
    changed();
    await adapter.close().catch((error: unknown) => log.warn({ adapter: name, reason: errorText(error) }, "a ROS adapter did not close"));
    if (is_needed && !this.#stopping.signal.aborted) log.warn({ adapter: name, reason }, "ROS is no longer reachable");
  }

  async #searchOnce(): Promise<RosAdapter | undefined> {
    const { settings, clock, log, name, find, isNeeded } = this.#options;
    const late = new Error(`the search did not end within ${ROS_FIND_TIMEOUT_MS / 1_000} s`);
    using limit = timeLimit(clock, ROS_FIND_TIMEOUT_MS, late, this.#stopping.signal);
    const search = find({ settings, clock, log, signal: limit.signal });
    try {
      const adapter = await unlessAborted(limit.signal, search);
      if (adapter === undefined) {
        // If a lost adapter is not found again, keep the reason why it was lost: that explains why ROS does not answer.
        if (this.#result.state !== "lost") this.#result = { state: "not_found" };
        return undefined;
      }
      if (!this.#stopping.signal.aborted && isNeeded()) return adapter;
      await adapter.close();
      return undefined;
    } catch (error) {
      // The search may ignore its abort signal, so close the adapter if it is found later.
      search.then((adapter) => adapter?.close()).catch(() => {});
      const reason = errorText(error).slice(0, REASON_CHARACTERS_MAX);
      this.#result = { state: "failed", reason };
      if (!this.#stopping.signal.aborted) log.warn({ adapter: name, reason }, "an adapter for ROS failed");
      return undefined;
    }
  }
}

/** Maximum wait of a caller for a slow adapter. After that the caller gets the adapter's latest list. */
const CALLER_WAIT_MS = 2_000;

interface LatestAnswerOptions<T> {
  clock: Clock;
  ask: () => readonly T[] | Promise<readonly T[]>;
  failed: (error: unknown) => void;
}

/**
 * The latest list of topics or nodes of an adapter. Concurrent callers share one query. The list is empty if the query fails or takes
 * longer than ROS_ASK_TIMEOUT_MS.
 */
class LatestAnswer<T> {
  latest: readonly T[] = [];
  /** Whether a query has ended since the adapter connected, successfully or not. */
  is_known = false;
  readonly #options: LatestAnswerOptions<T>;
  #asking: Promise<void> | undefined;

  constructor(options: LatestAnswerOptions<T>) {
    this.#options = options;
  }

  /** Queries the adapter and returns the list. Waits at most CALLER_WAIT_MS, then returns the previous list. */
  async refresh(): Promise<readonly T[]> {
    await within(this.#options.clock, CALLER_WAIT_MS, this.ask());
    return this.latest;
  }

  /** Queries the adapter. Resolves when the result is in `latest`. */
  ask(): Promise<void> {
    if (this.#asking !== undefined) return this.#asking;
    const asking = this.#ask().then((answer) => {
      // `clear` was called meanwhile, so this result is of an adapter that is gone.
      if (this.#asking !== asking) return;
      this.#asking = undefined;
      this.latest = answer;
      this.is_known = true;
    });
    this.#asking = asking;
    return asking;
  }

  clear(): void {
    this.latest = [];
    this.is_known = false;
    this.#asking = undefined;
  }

  async #ask(): Promise<readonly T[]> {
    try {
      return (await within(this.#options.clock, ROS_ASK_TIMEOUT_MS, Promise.resolve().then(this.#options.ask))) ?? [];
    } catch (error) {
      this.#options.failed(error);
      return [];
    }
  }
}
