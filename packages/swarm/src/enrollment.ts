import { askOnce, backoffMs, EnrollmentRefused, type HttpClient } from "@roamfleet/agent/parts";
import type { Clock } from "@roamfleet/clock";
import { deriveRobotKey, type StoredRobot, robotKey } from "./robot-file.ts";

/** Timeout for enrolling the first robot. After its success, retries are unlimited. */
const FIRST_WAIT_MS = 30_000;

/** Thrown if the server does not respond, or if its response is invalid. */
export class EnrollmentError extends Error {}

export interface EnrollmentOptions {
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
 * Enrolls robots one after the other, so that their ids sort by robot number, and passes each to `take` immediately. Robots in `known` are
 * passed unchanged. Throws EnrollmentRefused for an invalid key, and EnrollmentError if the server does not respond or its response is
 * invalid.
 */
export async function enrollFleet(
  options: EnrollmentOptions,
  known: ReadonlyMap<number, StoredRobot>,
  take: (robot: StoredRobot) => void,
): Promise<void> {
  const digits = String(options.robots).length;
  let heard = false;
  for (let number = 1; number <= options.robots && !options.signal.aborted; number += 1) {
    const stored = known.get(number);
    if (stored === undefined) {
      const name = `${options.name_prefix}-${String(number).padStart(digits, "0")}`;
      const enrolled = await enrollOne(options, number, name, heard);
      if (enrolled === undefined) return;
      heard = true;
      take(enrolled);
    } else take(stored);
  }
}

/** Enrolls one robot, with retries. Returns undefined if aborted. */
async function enrollOne(options: EnrollmentOptions, number: number, name: string, heard: boolean): Promise<StoredRobot | undefined> {
  const { server, clock, http, signal, seed, labels } = options;
  const key = deriveRobotKey(options.key, seed, number);
  const { public_key } = robotKey(key);
  const config = { server, name, labels, system_root: "/" };
  const began = clock.monotonic();
  for (let attempt = 0; !signal.aborted; attempt += 1) {
    const result = await askOnce({ config, key: { public_key }, clock, http, signal }, options.key).catch((error: unknown) => {
      if (signal.aborted) return undefined;
      throw error instanceof EnrollmentRefused ? error : new EnrollmentError(error instanceof Error ? error.message : String(error));
    });
    if (result === undefined) return undefined;
    if ("enrollment" in result) {
      const { robot_id, org_id, name: named } = result.enrollment;
      return { number, key: key.toString("base64"), robot_id, org_id, name: named, installs: 0, first: {}, apps: {} };
    }
    if (!heard && clock.monotonic() - began > FIRST_WAIT_MS) throw new EnrollmentError(`${server} does not respond: ${result.reason}`);
    const wait_ms = result.retry_after_ms ?? backoffMs(clock, Math.min(attempt, 3));
    options.waiting(result.reason, wait_ms);
    await clock.sleep(wait_ms, signal);
  }
  return undefined;
}
