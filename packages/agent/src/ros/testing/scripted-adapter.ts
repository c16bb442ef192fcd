import type { FindRosAdapter, RosAdapter, RosAdapterName, RosMessage, RosTopic } from "../adapter.ts";

/** A ROS adapter for tests. The test sets what is published and when, and reads the subscriptions. */
export class ScriptedRos {
  readonly name: RosAdapterName;
  /** Whether searches find this adapter. */
  there = true;
  searches = 0;
  closed = 0;
  distro = "humble";
  /** If true, topic lists never return. */
  hangs = false;
  /** If true, subscriptions are rejected. */
  refuses = false;
  published: RosTopic[] = [];
  node_names: string[] = [];
  readonly subscribed: string[] = [];
  readonly #listeners = new Map<string, (message: RosMessage) => void>();
  #leave: ((reason: string) => void) | undefined;

  constructor(name: RosAdapterName = "dds") {
    this.name = name;
  }

  readonly find: FindRosAdapter = () => {
    this.searches += 1;
    return Promise.resolve(this.there ? this.#adapter() : undefined);
  };

  /** Publishes a message to the subscribers. */
  publish(topic: string, message: unknown, type = "test_msgs/msg/Any", at = new Date("2030-01-01T00:00:00Z")): void {
    this.#listeners.get(topic)?.({ type, at, message });
  }

  /** Topics that currently have a subscription. */
  get listened(): string[] {
    return Array.from(this.#listeners.keys());
  }

  leave(reason: string): void {
    this.there = false;
    this.#leave?.(reason);
  }

  #adapter(): RosAdapter {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.#leave = resolve;
    return {
      name: this.name,
      distro: this.distro,
      gone: promise,
      nodes: () => this.node_names,
      topics: () => (this.hangs ? new Promise(() => {}) : Promise.resolve(this.published)),
      subscribe: (topic, on) => {
        this.subscribed.push(topic);
        if (this.refuses) return Promise.reject(new Error("refused"));
        this.#listeners.set(topic, on);
        return Promise.resolve(() => void this.#listeners.delete(topic));
      },
      close: () => {
        this.closed += 1;
        this.#listeners.clear();
        resolve("closed");
        return Promise.resolve();
      },
    };
  }
}
