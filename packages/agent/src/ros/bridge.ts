import type { Clock } from "@robofleet/clock";
import type { HealthBody } from "@robofleet/protocol/link";
import type { Logger } from "pino";
import { errorText } from "../disk/write-atomically.ts";
import { backoffMs } from "../link/backoff.ts";
import {
  type FindRosAdapter,
  ROS_ASK_TIMEOUT_MS,
  ROS_FIND_TIMEOUT_MS,
  type RosAdapter,
  type RosAdapterName,
  type RosMessage,
  type RosTopic,
} from "./adapter.ts";
import { rosFinders } from "./finders.ts";
import type { RosSettings } from "./settings.ts";
import { SharedSubscription } from "./shared-subscription.ts";

/** The server takes no more in a health snapshot. */
const HEALTH_NODES_MAX = 1_000;
const HEALTH_TOPICS_MAX = 5_000;
const HEALTH_NAME_CHARACTERS_MAX = 200;

export interface RosBridgeOptions {
  settings: RosSettings;
  clock: Clock;
  log: Logger;
  /** How adapters are found; all that exist, if absent. */
  finders?: Partial<Record<RosAdapterName, FindRosAdapter>>;
}

/** The robot's ROS, by whichever adapter answers: found by itself, found again when it is gone, one subscription per topic for all who ask. */
export class RosBridge {
  readonly #options: RosBridgeOptions;
  readonly #subscriptions = new Map<string, SharedSubscription>();
  readonly #stopping = new AbortController();
  #adapter: RosAdapter | undefined;
  #search: Promise<RosAdapter | undefined> | undefined;
  #running: Promise<void> | undefined;
  /** Ends the wait before the next search. */
  #wake: () => void = () => {};

  constructor(options: RosBridgeOptions) {
    this.#options = options;
  }

  /** Begins to look for ROS, and goes on until it is stopped. */
  start(): void {
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    await this.#adapter?.close();
    await (this.#running ?? this.#search);
  }

  /** What answers now. */
  get adapter(): RosAdapter | undefined {
    return this.#adapter;
  }

  /** What answers now, else what a search finds that takes at most ROS_FIND_TIMEOUT_MS for each adapter. */
  async find(): Promise<RosAdapter | undefined> {
    if (this.#adapter !== undefined || this.#stopping.signal.aborted) return this.#adapter;
    this.start();
    const adapter = await this.#searchNow();
    this.#wake();
    return adapter;
  }

  /** Topics that somebody publishes, by name; none when no ROS answers. */
  async topics(): Promise<RosTopic[]> {
    const topics = await this.#ask((adapter) => adapter.topics(), []);
    return topics.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  }

  async nodes(): Promise<string[]> {
    return (await this.#ask((adapter) => adapter.nodes(), [])).toSorted();
  }

  /**
   * Hands on the messages of a topic until the answer is called, at most `rate` a second; also those of an adapter that is found later. A topic that
   * nobody publishes yet is waited for.
   */
  subscribe(topic: string, { rate }: { rate?: number | undefined }, on: (message: RosMessage) => void): Promise<() => void> {
    this.start();
    let shared = this.#subscriptions.get(topic);
    if (shared === undefined) {
      const { clock, log } = this.#options;
      const nobody = (): void => void this.#subscriptions.delete(topic);
      shared = new SharedSubscription({ topic, clock, log, nobody });
      this.#subscriptions.set(topic, shared);
      if (this.#adapter !== undefined) shared.attach(this.#adapter);
    }
    return Promise.resolve(shared.add(rate, on));
  }

  /** For the health snapshot; null when no ROS answers. */
  async health(): Promise<HealthBody["ros"]> {
    const adapter = this.#adapter;
    if (adapter === undefined) return null;
    const short = (name: string): boolean => name.length > 0 && name.length <= HEALTH_NAME_CHARACTERS_MAX;
    const [nodes, topics] = [await this.nodes(), await this.topics()];
    return {
      distro: adapter.distro,
      adapter: adapter.name,
      nodes: nodes.filter(short).slice(0, HEALTH_NODES_MAX),
      topics: topics
        .map(({ name }) => name)
        .filter(short)
        .slice(0, HEALTH_TOPICS_MAX),
    };
  }

  async #ask<T>(question: (adapter: RosAdapter) => T | Promise<T>, otherwise: T): Promise<T> {
    const adapter = this.#adapter;
    if (adapter === undefined) return otherwise;
    const { clock, log } = this.#options;
    const done = new AbortController();
    const late = clock.sleep(ROS_ASK_TIMEOUT_MS, done.signal).then(() => otherwise);
    try {
      return await Promise.race([question(adapter), late]);
    } catch (error) {
      log.warn({ adapter: adapter.name, reason: errorText(error) }, "ROS did not answer");
      return otherwise;
    } finally {
      done.abort();
    }
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#options;
    for (let failures = 0; !this.#stopping.signal.aborted;) {
      const adapter = await this.#searchNow();
      if (adapter === undefined) failures += 1;
      else {
        const reason = await adapter.gone;
        failures = 0;
        this.#adapter = undefined;
        for (const shared of this.#subscriptions.values()) shared.detach();
        await adapter
          .close()
          .catch((error: unknown) => log.warn({ adapter: adapter.name, reason: errorText(error) }, "an adapter did not close"));
        if (!this.#stopping.signal.aborted) log.warn({ adapter: adapter.name, reason }, "ROS is gone");
      }
      if (this.#stopping.signal.aborted) return;
      const awake = new AbortController();
      this.#wake = () => awake.abort();
      await clock.sleep(backoffMs(clock, failures), awake.signal);
    }
  }

  /** One search at a time, whoever asks for it; what it finds is in use from then on. */
  #searchNow(): Promise<RosAdapter | undefined> {
    if (this.#adapter !== undefined) return Promise.resolve(this.#adapter);
    this.#search ??= this.#searchOnce().then((adapter) => {
      this.#search = undefined;
      this.#adapter = adapter;
      if (adapter === undefined) return undefined;
      this.#options.log.info({ adapter: adapter.name, distro: adapter.distro }, "ROS found");
      for (const shared of this.#subscriptions.values()) shared.attach(adapter);
      return adapter;
    });
    return this.#search;
  }

  /** The first that answers, in the configured order. */
  async #searchOnce(): Promise<RosAdapter | undefined> {
    const { settings, finders = rosFinders } = this.#options;
    for (const name of settings.adapters) {
      const find = finders[name];
      if (find === undefined || this.#stopping.signal.aborted) continue;
      const adapter = await this.#try(name, find);
      if (adapter !== undefined && this.#stopping.signal.aborted) await adapter.close();
      else if (adapter !== undefined) return adapter;
    }
    return undefined;
  }

  async #try(name: RosAdapterName, find: FindRosAdapter): Promise<RosAdapter | undefined> {
    const { settings, clock, log } = this.#options;
    const late = new AbortController();
    const done = new AbortController();
    const signal = AbortSignal.any([late.signal, this.#stopping.signal]);
    void clock.sleep(ROS_FIND_TIMEOUT_MS, done.signal).then(() => late.abort());
    try {
      return await find({ settings, clock, log, signal });
    } catch (error) {
      if (!this.#stopping.signal.aborted) log.warn({ adapter: name, reason: errorText(error) }, "an adapter for ROS failed");
      return undefined;
    } finally {
      done.abort();
    }
  }
}
