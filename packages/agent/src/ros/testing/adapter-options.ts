import { inspect, isDeepStrictEqual } from "node:util";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { pino } from "pino";
import type { RosAdapterOptions } from "../adapter.ts";
import { DEFAULT_ADDRESSES, type RosSettings } from "../settings.ts";

/** Returns what the bridge passes to a search, with the given settings. */
export const adapterOptions = (settings: Partial<RosSettings>): RosAdapterOptions => ({
  settings: { ...DEFAULT_ADDRESSES, adapters: [], prefixes: [], environment: {}, ...settings },
  clock: systemClock,
  log: pino({ level: "silent" }),
  signal: new AbortController().signal,
});

/** Waits until `read` returns the expected value, by default true. */
export async function eventually(read: () => unknown, expected: unknown = true): Promise<void> {
  let seen: unknown;
  const look = async (): Promise<boolean> => isDeepStrictEqual((seen = await read()), expected);
  await until(`${inspect(expected)} of ${read.toString()}`, look, { detail: () => `it is ${inspect(seen)}` });
}
