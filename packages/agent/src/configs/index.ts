import type { Timer } from "@roamfleet/clock";
import type { DesiredConfig } from "@roamfleet/protocol/link";
import { Journal } from "../deployments/journal.ts";
import type { ConfigState } from "./state.ts";
import { ConfigWorker, type ConfigWorkerOptions } from "./worker.ts";

export type ConfigsOptions = Omit<ConfigWorkerOptions, "namespace" | "journal">;

/** Keeps the robot's config files, `<state>/configs/<namespace>.json`, as the server wants them. */
export class Configs {
  readonly #options: ConfigsOptions;
  readonly #journal: Journal<ConfigState>;
  readonly #workers = new Map<string, ConfigWorker>();
  #drift: Timer | undefined;

  constructor(options: ConfigsOptions) {
    this.#options = options;
    const { journal, damaged } = Journal.open<ConfigState>(options.paths.config_journal, ({ namespace }) => namespace);
    if (damaged > 0) options.log.warn({ damaged }, "config journal has damaged lines");
    this.#journal = journal;
    for (const namespace of journal.records.keys()) this.#worker(namespace);
  }

  #worker(namespace: string): ConfigWorker {
    let worker = this.#workers.get(namespace);
    if (worker === undefined) {
      worker = new ConfigWorker({ ...this.#options, namespace, journal: this.#journal });
      this.#workers.set(namespace, worker);
    }
    return worker;
  }

  desired(configs: Record<string, DesiredConfig>): void {
    for (const namespace of Object.keys(configs)) this.#worker(namespace);
    for (const [namespace, worker] of this.#workers) worker.setDesired(Object.hasOwn(configs, namespace) ? configs[namespace] : undefined);
  }

  announce(): void {
    for (const worker of this.#workers.values()) worker.announce();
  }

  start(): void {
    for (const worker of this.#workers.values()) worker.start();
    this.#drift = this.#options.clock.every(this.#options.timing.drift_interval_ms, () => {
      for (const worker of this.#workers.values()) worker.checkDrift();
    });
  }

  async stop(): Promise<void> {
    this.#drift?.cancel();
    await Promise.all([...this.#workers.values()].map((worker) => worker.stop()));
    this.#journal.close();
  }
}
