import { join } from "node:path";
import type { Clock, Timer } from "@roamfleet/clock";
import { APPS_MAX, type Desired } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { errorText, readJson, writeJson } from "../disk/write-atomically.ts";
import type { Deployments, Reporter } from "../contract.ts";
import { failureOf } from "../runtime/failure.ts";

/** Maximum config namespaces in a desired state; the server's limit is far lower. */
const CONFIGS_MAX = 1_024;
const STORE_RETRY_MS = 10_000;

interface DesiredStoreOptions {
  state_directory: string;
  clock: Clock;
  log: Logger;
}

/** Stores the newest desired state on disk before it is applied. */
export class DesiredStore {
  readonly #options: DesiredStoreOptions;
  readonly #path: string;
  #current: Desired | undefined;
  #retry: Timer | undefined;

  constructor(options: DesiredStoreOptions) {
    this.#options = options;
    this.#path = join(options.state_directory, "desired.json");
    const damaged = (): void => options.log.warn("the desired state on disk is damaged; the server sends it again");
    this.#current = parseDesired(readJson(this.#path, damaged));
  }

  get current(): Desired | undefined {
    return this.#current;
  }

  /** Generation of the stored desired state; 0 before the first. */
  get generation(): number {
    return this.#current?.generation ?? 0;
  }

  /**
   * Stores a desired state on disk, then calls `stored`. Calls `stored` with `fresh` false if this generation or a newer one was
   * already on disk, since the server may not know that. Retries a failed write until it succeeds or another desired state arrives.
   * Calls `refused` with the first error only.
   */
  take(desired: Desired, stored: (fresh: boolean) => void, refused?: (error: unknown) => void): void {
    this.stop();
    if (desired.generation <= this.generation) return stored(false);
    try {
      writeJson(this.#path, withoutLogins(desired));
    } catch (error) {
      this.#options.log.error(
        { generation: desired.generation, reason: errorText(error) },
        "could not store the desired state, trying again",
      );
      this.#retry = this.#options.clock.setTimer(STORE_RETRY_MS, () => this.take(desired, stored));
      refused?.(error);
      return;
    }
    this.#current = desired;
    stored(true);
  }

  stop(): void {
    this.#retry?.cancel();
    this.#retry = undefined;
  }
}

/**
 * Returns the desired state without its registry logins. They arrive again with each connect, and must never be on the robot's disk.
 */
function withoutLogins(desired: Desired): Desired {
  const apps = Object.entries(desired.apps).map(([app, state]) => {
    const { registry_auth: _, ...release } = state.release ?? {};
    return [app, state.release?.registry_auth ? { ...state, release } : state] as const;
  });
  return { ...desired, apps: Object.fromEntries(apps) as Desired["apps"] };
}

/**
 * Parses a desired state. Returns undefined if it is invalid, for example a torn file or a message of a server with another protocol.
 */
export function parseDesired(value: unknown): Desired | undefined {
  if (!isObject(value)) return undefined;
  const { generation, apps, configs } = value;
  if (!Number.isSafeInteger(generation) || Number(generation) < 0 || !isObject(apps) || !isObject(configs)) return undefined;
  if (Object.keys(apps).length > APPS_MAX || Object.keys(configs).length > CONFIGS_MAX) return undefined;
  const whole =
    Object.values(apps).every((app) => isObject(app) && (app.release === null || isObject(app.release))) &&
    Object.values(configs).every(isObject);
  return whole ? (value as unknown as Desired) : undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Stores a desired state on disk, applies it, then reports its generation. A generation that was already stored is only reported again,
 * since the server may not have received the first report.
 */
export function takeDesired(
  parts: { store: DesiredStore; reporter: Reporter; deployments: Deployments; log: Logger },
  desired: Desired,
): void {
  const { store, reporter, deployments, log } = parts;
  deployments.learn(desired);
  const act = (fresh: boolean): void => {
    try {
      if (fresh) deployments.desired(desired);
      reporter.report({ kind: "observed", generation: store.generation });
    } catch (error) {
      log.error({ generation: desired.generation, reason: errorText(error) }, "could not apply the desired state");
    }
  };
  store.take(desired, act, (error) => refuseConfigs(desired, store.current, reporter, error));
}

/**
 * Reports config deployments as failed if the desired state does not fit on the disk. A config file would not fit either, and the
 * deployments would end by timeout. Release deployments take longer, and the disk may have room by then, so they are not reported as
 * failed.
 */
function refuseConfigs(desired: Desired, before: Desired | undefined, reporter: Reporter, error: unknown): void {
  const { reason, message } = failureOf(error, "timeout");
  if (reason !== "insufficient_disk") return;
  for (const [namespace, { target_id, deployment_id, attempt }] of Object.entries(desired.configs)) {
    const known = before?.configs[namespace];
    if (target_id === null || deployment_id === null || (known?.target_id === target_id && known.attempt === attempt)) continue;
    reporter.report({ kind: "target", target_id, deployment_id, attempt, status: "failed", reason, message });
  }
}
