import { askOnce, backoffMs, EnrolmentRefused, type HttpClient } from "@roamfleet/agent/parts";
import type { Clock } from "@roamfleet/clock";
import type { KeptRobot } from "./kept.ts";
import { deriveRobotKey, robotKey } from "./robot-key.ts";

/** Timeout for reaching the server before the first robot; later the wait is unlimited. */
const FIRST_WAIT_MS = 30_000;

/** The server does not respond, or its response is invalid. */
export class CannotEnrol extends Error {}

export interface EnrolmentOptions {
  server: string;
  /** The raw enrollment key. */
  key: string;
  seed: number;
  robots: number;
  name_prefix: string;
  labels: Record<string, string>;
  clock: Clock;
  http: HttpClient;
  signal: AbortSignal;
  /** Called when the server is unreachable or too busy, before a retry. */
  waiting: (reason: string, wait_ms: number) => void;
}

/**
 * Enrolls robots one after the other, so that their ids have the order of their numbers, and yields each immediately. Robots of `known` are
 * yielded unchanged. Throws EnrolmentRefused for an invalid key, CannotEnrol if the server does not respond or responds with invalid data.
 */
export async function enrollFleet(
  options: EnrolmentOptions,
  known: ReadonlyMap<number, KeptRobot>,
  take: (robot: KeptRobot) => void,
): Promise<void> {
  const digits = String(options.robots).length;
  let heard = false;
  for (let number = 1; number <= options.robots && !options.signal.aborted; number += 1) {
    const kept = known.get(number);
    if (kept === undefined) {
      const name = `${options.name_prefix}-${String(number).padStart(digits, "0")}`;
      const enrolled = await enrollOne(options, number, name, heard);
      if (enrolled === undefined) return;
      heard = true;
      take(enrolled);
    } else take(kept);
  }
}

/** Returns undefined if aborted. */
async function enrollOne(options: EnrolmentOptions, number: number, name: string, heard: boolean): Promise<KeptRobot | undefined> {
  const { server, clock, http, signal, seed, labels } = options;
  const key = deriveRobotKey(options.key, seed, number);
  const { public_key } = robotKey(key);
  const config = { server, name, labels, system_root: "/" };
  const began = clock.monotonic();
  for (let attempt = 0; !signal.aborted; attempt += 1) {
    const result = await askOnce({ config, key: { public_key }, clock, http, signal }, options.key).catch((error: unknown) => {
      if (signal.aborted) return undefined;
      throw error instanceof EnrolmentRefused ? error : new CannotEnrol(error instanceof Error ? error.message : String(error));
    });
    if (result === undefined) return undefined;
    if ("enrolment" in result) {
      const { robot_id, org_id, name: named } = result.enrolment;
      return { number, key: key.toString("base64"), robot_id, org_id, name: named, installs: 0, first: {}, apps: {} };
    }
    if (!heard && clock.monotonic() - began > FIRST_WAIT_MS) throw new CannotEnrol(`${server} does not respond: ${result.reason}`);
    const wait_ms = result.retry_after_ms ?? backoffMs(clock, Math.min(attempt, 3));
    options.waiting(result.reason, wait_ms);
    await clock.sleep(wait_ms, signal);
  }
  return undefined;
}
