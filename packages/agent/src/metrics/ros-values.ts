import type { Clock } from "@roamfleet/clock";
import { type RosMessage, UndecodedMessage } from "../ros/adapter.ts";
import type { RosBridge } from "../ros/bridge.ts";
import type { RosValueConfig } from "../config-file/robot-config.ts";
import type { SampleSource } from "./sample-source.ts";

interface RosValuesOptions {
  values: readonly RosValueConfig[];
  ros: Pick<RosBridge, "subscribe">;
  source: SampleSource;
  clock: Clock;
}

/** Collects numeric fields of ROS topics. Of each topic it keeps only the last message, which is decoded once for each sample. */
export class RosValues {
  readonly #options: RosValuesOptions;
  /** The last message of each topic since the last sample. */
  readonly #latest = new Map<string, RosMessage>();
  #ends: Promise<() => void>[] = [];

  constructor(options: RosValuesOptions) {
    this.#options = options;
  }

  start(): void {
    const { values, ros } = this.#options;
    const topics = new Set(values.map(({ topic }) => topic));
    this.#ends = Array.from(topics, (topic) => ros.subscribe(topic, {}, (message) => void this.#latest.set(topic, message)));
  }

  async stop(): Promise<void> {
    const ends = await Promise.all(this.#ends);
    for (const end of ends) end();
  }

  /** Takes a sample of each field whose topic had a message since the last call. */
  collect(): void {
    const { values, source, clock } = this.#options;
    const time = clock.monotonic();
    for (const { topic, field, name } of values) {
      const message = this.#latest.get(topic)?.message;
      if (message === undefined) continue;
      const value = message instanceof UndecodedMessage ? undefined : fieldOf(message, field);
      if (value !== undefined) source.take({ name, labels: { topic }, value }, time);
      else source.drop("invalid", `${topic} ${field}: ${message instanceof UndecodedMessage ? message.reason : "no such numeric field"}`);
    }
    this.#latest.clear();
  }
}

/** Returns the number or boolean at a path such as `pose.position.x` or `ranges[0]`; undefined if there is none. */
export function fieldOf(message: unknown, path: string): number | undefined {
  let value = message;
  for (const key of path.match(/\w+/g) ?? []) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return typeof value === "number" || typeof value === "bigint" || typeof value === "boolean" ? Number(value) : undefined;
}
