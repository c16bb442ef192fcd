import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { systemClock } from "@robofleet/clock";
import { pino } from "pino";
import type { RosAdapterOptions } from "../adapter.ts";
import type { RosSettings } from "../settings.ts";

const EVENTUALLY_MS_MAX = 20_000;
const POLL_MS = 20;

/** What the bridge hands to a search, with the settings that a test names. */
export const adapterOptions = (settings: Partial<RosSettings>): RosAdapterOptions => ({
  settings: { adapters: [], prefixes: [], environment: {}, ...settings },
  clock: systemClock,
  log: pino({ level: "silent" }),
  signal: new AbortController().signal,
});

/** Waits until `read` answers what is expected: true, if nothing else is. */
export async function eventually(read: () => unknown, expected: unknown = true): Promise<void> {
  const deadline = systemClock.monotonic() + EVENTUALLY_MS_MAX;
  for (;;) {
    const value = await read();
    if (isDeepStrictEqual(value, expected)) return;
    if (systemClock.monotonic() > deadline) return assert.deepEqual(value, expected);
    await systemClock.sleep(POLL_MS);
  }
}
