import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@roamfleet/clock";
import { pino } from "pino";
import { LOG_SPOOL_BYTES_DEFAULT, UsageError } from "../config.ts";
import { Journal } from "../deployments/journal.ts";
import type { AppState } from "../deployments/state.ts";
import { lockState } from "../disk/lock.ts";
import { Containers } from "../runtime/docker/containers.ts";
import { Engine } from "../runtime/docker/engine.ts";
import { DetachedHost } from "../runtime/hosts/detached-host.ts";
import { TIMING } from "../runtime/limits.ts";
import { type StatePaths, statePaths } from "../runtime/paths.ts";
import { LogSpool } from "../spool/log-spool.ts";

interface StopWorkloadsOptions {
  state_directory: string;
  container_sockets: readonly string[];
  clock: Clock;
  print: (text: string) => void;
}

/** Maximum wait for a container engine that is restarting. Without an engine, no container runs. */
const ENGINE_WAIT_MS = 5_000;

/**
 * Stops the workloads of a robot on which no agent runs, for example before the agent is uninstalled. The last output of the workloads
 * stays in the spool. The next agent starts the workloads again. Throws StateLockedError while an agent runs, since that agent would start
 * them again.
 */
export async function stopWorkloads(options: StopWorkloadsOptions): Promise<void> {
  const { state_directory, clock, print } = options;
  if (!existsSync(state_directory)) throw new UsageError(`there is no state directory ${state_directory}`);
  const unlock = lockState(state_directory);
  const now = (): Date => clock.now();
  const directory = join(state_directory, "logs");
  const spool = new LogSpool({ directory, bytes_max: LOG_SPOOL_BYTES_DEFAULT, clock, now, on_disk: () => {} });
  try {
    const paths = statePaths(state_directory);
    const { journal } = Journal.open<AppState>(paths.journal, ({ app }) => app);
    const apps = [...journal.records.keys()];
    journal.close();
    await stopPrograms(apps, paths, spool, clock);
    await stopContainers(apps, paths, options);
    print(`stopped the workloads of ${apps.length} ${apps.length === 1 ? "app" : "apps"}\n`);
  } finally {
    spool.close();
    unlock();
  }
}

// The bundle has no other destination: see build.ts.
const silent = pino({ level: "silent" }, { write: () => {} });

async function stopPrograms(apps: readonly string[], paths: StatePaths, spool: LogSpool, clock: Clock): Promise<void> {
  const sink = { write: spool.append.bind(spool), next_seq: () => spool.last_seq + 1, stored_seq: spool.stored_seq };
  const host = new DetachedHost({ paths, clock, log: silent, sink });
  await Promise.all(apps.map((app) => host.clear(app)));
}

async function stopContainers(
  apps: readonly string[],
  paths: StatePaths,
  { container_sockets: sockets, clock }: StopWorkloadsOptions,
): Promise<void> {
  const engine = new Engine({ sockets, clock, timing: TIMING, log: silent, on_answer: () => {} });
  await engine.start();
  try {
    if (!engine.available) return;
    const containers = new Containers(engine, paths.root);
    const wait = { signal: new AbortController().signal, wait_ms: ENGINE_WAIT_MS };
    await Promise.all(
      apps.map(async (app) => {
        for (const { id, state } of await containers.list(app, wait)) if (state === "running") await containers.stop(id, wait);
      }),
    );
  } finally {
    engine.close();
  }
}
