import type { Activity, Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { RobotConfig, ScrapeAddress } from "../config-file/robot-config.ts";
import type { ScrapeTarget } from "../contract.ts";
import type { SampleCollector } from "./sample-collector.ts";
import { SampleSource } from "./sample-source.ts";
import { httpAddress } from "./scrape-address.ts";
import { Scraper } from "./scraper.ts";
import type { Value } from "./system-values.ts";

interface WorkloadMetricsOptions {
  config: Pick<RobotConfig["metrics"], "interval_seconds" | "scrape">;
  /** Returns where the running apps serve metrics. */
  apps: () => readonly ScrapeTarget[];
  collector: SampleCollector;
  clock: Clock;
  activity: Activity;
  log: Logger;
}

interface Target {
  scraper: Scraper;
  labels: Record<string, string>;
}

/** Collects the metrics of apps, and of the services that the robot's config names. */
export class WorkloadMetrics {
  readonly #options: WorkloadMetricsOptions;
  readonly #services: Target[] = [];
  /** Targets of running apps, by app and address. */
  readonly #apps = new Map<string, Target>();
  #timers: Timer[] = [];

  constructor(options: WorkloadMetricsOptions) {
    this.#options = options;
  }

  start(): void {
    const { config, clock } = this.#options;
    for (const { address, labels, interval_seconds } of config.scrape) {
      const target = this.#target(address, { instance: address.instance, ...labels });
      this.#services.push(target);
      this.#timers.push(clock.every((interval_seconds ?? config.interval_seconds) * 1_000, () => void target.scraper.scrape()));
    }
    this.#timers.push(clock.every(config.interval_seconds * 1_000, () => this.#scrapeApps()));
  }

  stop(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#timers = [];
    for (const { scraper } of this.#targets) scraper.stop();
  }

  /** Returns whether each target answers, and the samples that were dropped. */
  values(): Value[] {
    return this.#targets.flatMap(({ labels, scraper: { is_up, source } }) => [
      ...(is_up === undefined ? [] : [{ name: "scrape_up", labels, value: is_up ? 1 : 0 }]),
      ...source.values(),
    ]);
  }

  get #targets(): Target[] {
    return [...this.#services, ...this.#apps.values()];
  }

  #scrapeApps(): void {
    const running = new Map(this.#options.apps().map((target) => [JSON.stringify(target), target]));
    for (const [key, { scraper }] of this.#apps) {
      if (running.has(key)) continue;
      scraper.stop();
      this.#apps.delete(key);
    }
    for (const [key, { app, url }] of running) {
      const target = this.#apps.get(key) ?? this.#target(httpAddress(new URL(url)), { app });
      this.#apps.set(key, target);
      void target.scraper.scrape();
    }
  }

  #target(address: ScrapeAddress, labels: Record<string, string>): Target {
    const name = JSON.stringify(labels);
    const source = new SampleSource({ ...this.#options, name, labels });
    return { labels, scraper: new Scraper({ ...this.#options, address, source }) };
  }
}
