import type { Clock } from "@roamfleet/clock";
import type { Logger } from "../../contract.ts";
import type { Containers } from "./containers.ts";
import type { Engine } from "./engine.ts";
import type { WatchedContainer } from "./watched-container.ts";

export interface RestartOptions {
  app: string;
  engine: Engine;
  container: WatchedContainer;
  containers: Containers;
  clock: Clock;
  log: Logger;
  signal: AbortSignal;
}

const TRIES_MAX = 3;

/** For the message of a check that failed during a restart of the engine each time. */
export const EVERY_TIME = `; the container engine restarted during each of ${TRIES_MAX} checks`;

/**
 * Repeats a check of a container that failed while the engine ended: a restart of the engine ends all containers. Returns the last result, and
 * whether the engine ended during that check, too. Throws StepFailure (`timeout`) if the engine does not return.
 */
export async function checkAcrossRestarts<R>(
  { app, engine, container, containers, clock, log, signal }: RestartOptions,
  check: () => Promise<R>,
  passed: (result: R) => boolean,
): Promise<{ result: R; interrupted: boolean }> {
  for (let tries = 1; ; tries += 1) {
    const { breaks } = engine;
    using run = engine.watchRun();
    const result = await check();
    if (passed(result)) return { result, interrupted: false };
    // Waits for an unreachable engine. During the sleep, Node handles the end of the watched connection, which came before the response.
    await container.refresh();
    await clock.sleep(1, signal);
    const interrupted = run.ended || engine.breaks !== breaks;
    if (!interrupted || tries === TRIES_MAX) return { result, interrupted };
    log.warn({ app, tries }, "the container engine restarted during a check of the release: the check is repeated");
    if (container.down) await containers.start(container.container_id, signal);
    container.exits = 0;
  }
}
