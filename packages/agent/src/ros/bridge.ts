import type { Clock, Timer } from "@roamfleet/clock";
import type { HealthBody } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { AdapterRunner, type AdapterStatus } from "./adapter-runner.ts";
import type { FindRosAdapter, RosAdapter, RosAdapterName, RosMessage, RosTopic } from "./adapter.ts";
import { rosFinders } from "./finders.ts";
import type { RosSettings } from "./settings.ts";
import { errorText } from "../disk/write-atomically.ts";

/** Maximum nodes that the server accepts in a health snapshot. The other limits are for the same snapshot. */
const HEALTH_NODES_MAX = 1_000;
const HEALTH_TOPICS_MAX = 5_000;
const HEALTH_NAME_CHARACTERS_MAX = 200;
/** Interval at which topic lists are queried again, to decide which adapter serves each subscription. */
const REVIEW_MS = 5_000;
/**
 * The adapter that runs only while no adapter before it in the order is connected. It starts a Python process for each list and each topic.
 */
const FALLBACK: RosAdapterName = "ros2";

/** A topic of the robot, as described by the first adapter in the configured order that has it. */
interface BridgedTopic extends RosTopic {
  adapter: RosAdapterName;
  /** Other topics with the same name but another type. For example, ROS 1 and ROS 2 may both have `/tf`. */
  others?: { type: string; adapter: RosAdapterName }[];
}

interface SubscribeOptions {
  /** Maximum messages per second. */
  rate?: number | undefined;
  /** The type of the topic, if several types share the name. Absent: the type that the first adapter lists. */
  type?: string | undefined;
}

interface RosBridgeOptions {
  settings: RosSettings;
  clock: Clock;
  log: Logger;
  /** How each adapter is searched for. Absent: all adapters that exist are used. */
  finders?: Partial<Record<RosAdapterName, FindRosAdapter>>;
}

/**
 * Gives access to the robot's ROS through all connected adapters, which run independently of each other. If several adapters list a topic,
 * the first in the configured order serves it. All listeners of a topic share one subscription.
 */
export class RosBridge {
  readonly #options: RosBridgeOptions;
  /** The adapters in the configured order: earlier ones take precedence. */
  readonly #runners: readonly AdapterRunner[];
  readonly #subscriptions = new Map<string, SharedSubscription>();
  #review: Timer | undefined;
  #is_stopped = false;

  constructor(options: RosBridgeOptions) {
    this.#options = options;
    const { settings, clock, log, finders = rosFinders } = options;
    this.#runners = [...new Set(settings.adapters)].flatMap((name) => {
      const find = finders[name];
      const [isNeeded, changed] = [() => this.#isNeeded(name), () => this.#changed()];
      return find === undefined ? [] : [new AdapterRunner({ name, find, settings, clock, log, isNeeded, changed })];
    });
  }

  start(): void {
    if (!this.#is_stopped) for (const runner of this.#runners) runner.start();
  }

  async stop(): Promise<void> {
    this.#is_stopped = true;
    this.#review?.cancel();
    await Promise.all(this.#runners.map((runner) => runner.stop()));
  }

  get adapters(): AdapterStatus[] {
    return this.#runners.map(({ status }) => status);
  }

  /**
   * Searches for the adapters that are not connected. Waits until the first adapter is found or all searches have ended. If an adapter is
   * connected, waits up to `rest_ms` more milliseconds for the remaining searches. Returns whether an adapter is connected.
   */
  async find({ rest_ms = 0 }: { rest_ms?: number } = {}): Promise<boolean> {
    this.start();
    const searches: Promise<RosAdapter | undefined>[] = [];
    for (const runner of this.#runners)
      searches.push(runner.name === FALLBACK ? Promise.all(searches).then(() => runner.search()) : runner.search());
    const all = Promise.all(searches);
    const foundOrAll = async (search: Promise<RosAdapter | undefined>): Promise<unknown> => (await search) ?? all;
    if (this.#connected.length === 0) await Promise.race([all, ...searches.map(foundOrAll)]);
    if (this.#connected.length === 0 || rest_ms === 0) return this.#connected.length > 0;
    const done = new AbortController();
    await Promise.race([all, this.#options.clock.sleep(rest_ms, done.signal)]);
    done.abort();
    return true;
  }

  /** Returns the published topics sorted by name, without duplicate names. The list is empty if no ROS answers. */
  async topics(): Promise<BridgedTopic[]> {
    await Promise.all(this.#connected.map(({ topics }) => topics.refresh()));
    this.#assign();
    const union = new Map<string, BridgedTopic>();
    for (const { name: adapter, topics } of this.#connected) {
      for (const { name, type } of topics.latest) {
        const first = union.get(name);
        if (first === undefined) union.set(name, { name, type, adapter });
        else if (first.type !== type && !first.others?.some((other) => other.type === type))
          first.others = [...(first.others ?? []), { type, adapter }];
      }
    }
    return [...union.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  async nodes(): Promise<string[]> {
    const lists = await Promise.all(this.#connected.map(({ nodes }) => nodes.refresh()));
    return [...new Set(lists.flat())].toSorted();
  }

  /**
   * Calls `on` with the messages of a topic until the returned function is called. The topic may have no publisher yet. The subscription
   * moves if another adapter becomes the first in the configured order that has the topic.
   */
  subscribe(topic: string, { rate, type }: SubscribeOptions, on: (message: RosMessage) => void): Promise<() => void> {
    this.start();
    const key = JSON.stringify([topic, type]);
    let shared = this.#subscriptions.get(key);
    if (shared === undefined) {
      const { clock, log } = this.#options;
      const unused = (): void => {
        this.#subscriptions.delete(key);
        if (this.#subscriptions.size === 0) this.#review?.cancel();
      };
      shared = new SharedSubscription({ topic, type, clock, log, unused });
      if (this.#subscriptions.size === 0 && !this.#is_stopped) this.#review = clock.every(REVIEW_MS, () => this.#reviewNow());
      this.#subscriptions.set(key, shared);
      this.#reviewNow();
    }
    return Promise.resolve(shared.add(rate, on));
  }

  /** Returns the ROS part of the health snapshot. `ros` names the first connected adapter; it is null if no ROS answers. */
  async health(): Promise<Pick<HealthBody, "ros"> & Required<Pick<HealthBody, "ros_adapters">>> {
    const short = (name: string): boolean => name.length > 0 && name.length <= HEALTH_NAME_CHARACTERS_MAX;
    const [nodes, topics] = await Promise.all([this.nodes(), this.topics()]);
    const [first] = this.#connected;
    const names = topics.map(({ name }) => name).filter(short);
    return {
      ros:
        first?.adapter === undefined
          ? null
          : {
              distro: first.adapter.distro,
              adapter: first.name,
              nodes: nodes.filter(short).slice(0, HEALTH_NODES_MAX),
              topics: names.slice(0, HEALTH_TOPICS_MAX),
            },
      ros_adapters: this.#runners.map((runner) => ({
        ...runner.status,
        ...(runner.adapter === undefined ? {} : { nodes: runner.nodes.latest.length, topics: runner.topics.latest.length }),
      })),
    };
  }

  get #connected(): AdapterRunner[] {
    return this.#runners.filter(({ adapter }) => adapter !== undefined);
  }

  #isNeeded(name: RosAdapterName): boolean {
    if (name !== FALLBACK) return true;
    const before = this.#runners.slice(
      0,
      this.#runners.findIndex((runner) => runner.name === name),
    );
    return before.every(({ has_searched, adapter }) => has_searched && adapter === undefined);
  }

  #changed(): void {
    if (this.#is_stopped) return this.#assign();
    for (const runner of this.#runners) runner.reconsider();
    this.#reviewNow();
  }

  /**
   * Assigns each subscription to an adapter. If topic lists could change an assignment, also queries them, and assigns again after each
   * response.
   */
  #reviewNow(): void {
    this.#assign();
    const subscriptions = [...this.#subscriptions.values()];
    const is_clear = this.#connected.length < 2 && subscriptions.every(({ adapter }) => adapter !== undefined);
    if (subscriptions.length === 0 || is_clear) return;
    for (const { topics } of this.#connected) void topics.ask().then(() => this.#assign());
  }

  #assign(): void {
    for (const subscription of this.#subscriptions.values()) {
      const adapter = this.#adapterFor(subscription);
      if (adapter === undefined) subscription.detach();
      else subscription.attach(adapter);
    }
  }

  /**
   * Returns the adapter that should serve a subscription: the first one that lists the topic. If none lists it, returns the current
   * adapter. If there is no current adapter and no type is given, returns the first connected adapter, at which the subscription waits for
   * a publisher.
   */
  #adapterFor({ topic, type, adapter: current }: SharedSubscription): RosAdapter | undefined {
    const connected = this.#connected;
    const offering = connected.find((runner) => runner.offers(topic, type));
    if (offering !== undefined) return offering.adapter;
    if (current !== undefined && connected.some(({ adapter }) => adapter === current)) return current;
    if (type !== undefined) return undefined;
    // Another adapter may have the topic, so wait until all lists are known.
    return connected.every(({ topics }) => connected.length === 1 || topics.is_known) ? connected[0]?.adapter : undefined;
  }
}

/** Minimum milliseconds between two log lines about the same kind of failure. */
const FAILURE_LOG_MS = 60_000;

interface Listener {
  /** Minimum milliseconds between two messages; 0: every message. */
  interval_ms: number;
  /** Time of the next message on the monotonic clock, in milliseconds. */
  next_at: number;
  on: (message: RosMessage) => void;
}

interface SharedSubscriptionOptions {
  topic: string;
  /** The type of the topic, if several types share the name. */
  type?: string | undefined;
  clock: Clock;
  log: Logger;
  /** Called when the last listener was removed. */
  unused: () => void;
}

/** A subscription to one topic that all its listeners share. It is served by one adapter at a time. */
class SharedSubscription {
  readonly #options: SharedSubscriptionOptions;
  readonly #listeners = new Set<Listener>();
  #adapter: RosAdapter | undefined;
  /** Ends the current adapter's subscription. */
  #end: (() => void) | undefined;
  #newest: RosMessage | undefined;
  /** Messages dropped since the last log entry. */
  #dropped = 0;
  #dropped_logged_at = -Infinity;
  #failure_logged_at = -Infinity;

  constructor(options: SharedSubscriptionOptions) {
    this.#options = options;
  }

  get topic(): string {
    return this.#options.topic;
  }

  get type(): string | undefined {
    return this.#options.type;
  }

  /** The adapter that serves the subscription. Undefined before `attach`, after `detach`, and after the adapter refused the subscription. */
  get adapter(): RosAdapter | undefined {
    return this.#adapter;
  }

  /** Adds a listener. Returns a function that removes it. */
  add(rate: number | undefined, on: (message: RosMessage) => void): () => void {
    const listener: Listener = { interval_ms: rate === undefined ? 0 : 1_000 / rate, next_at: -Infinity, on };
    this.#listeners.add(listener);
    // A latched message, such as a map, is published only once. So pass the latest message to a new listener immediately.
    const newest = this.#newest;
    if (newest !== undefined) queueMicrotask(() => this.#listeners.has(listener) && this.#deliver(listener, newest));
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      this.detach();
      this.#options.unused();
    };
  }

  /** Moves the subscription to an adapter. Does nothing if that adapter already serves it. */
  attach(adapter: RosAdapter): void {
    if (this.#adapter === adapter) return;
    this.detach();
    this.#adapter = adapter;
    let over = false;
    let unsubscribe: (() => void) | undefined;
    this.#end = () => {
      over = true;
      unsubscribe?.();
    };
    adapter
      .subscribe(this.topic, (message) => {
        if (!over) this.#handOn(message);
      })
      .then(
        (end) => {
          unsubscribe = end;
          if (over) end();
        },
        (error: unknown) => {
          if (!over) this.#refused(adapter, error);
        },
      );
  }

  /** Ends the subscription, because its adapter is gone or its last listener was removed. */
  detach(): void {
    this.#newest = undefined;
    this.#adapter = undefined;
    this.#end?.();
    this.#end = undefined;
  }

  #refused(adapter: RosAdapter, error: unknown): void {
    this.detach();
    const { topic, clock, log } = this.#options;
    const now = clock.monotonic();
    if (now - this.#failure_logged_at < FAILURE_LOG_MS) return;
    this.#failure_logged_at = now;
    log.warn({ adapter: adapter.name, topic, reason: errorText(error) }, "could not subscribe to a topic");
  }

  #handOn(message: RosMessage): void {
    this.#newest = message;
    for (const listener of this.#listeners) this.#deliver(listener, message);
  }

  #deliver(listener: Listener, message: RosMessage): void {
    const now = this.#options.clock.monotonic();
    if (now < listener.next_at) return;
    // Normally, count from the time at which the message was due: then a limit of 10 messages a second passes exactly 10 of 30. After a
    // long pause, count from now, so that there is no burst.
    const late_ms = now - listener.next_at;
    listener.next_at = (late_ms < listener.interval_ms ? listener.next_at : now) + listener.interval_ms;
    try {
      listener.on(message);
    } catch (error) {
      this.#drop(error, now);
    }
  }

  /**
   * Counts and logs a message that a listener failed to process, for example because its content does not match its type. Other listeners
   * still get the message.
   */
  #drop(error: unknown, now: number): void {
    this.#dropped += 1;
    if (now - this.#dropped_logged_at < FAILURE_LOG_MS) return;
    const { topic, log } = this.#options;
    log.warn({ topic, messages: this.#dropped, reason: errorText(error) }, "listeners failed to process messages of a topic");
    this.#dropped = 0;
    this.#dropped_logged_at = now;
  }
}
