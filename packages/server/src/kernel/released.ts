/**
 * The version of this program and a time before which it did not exist: a clock that shows an earlier time is wrong. A test compares the
 * version with package.json, so that the time moves with each release.
 */
export const RELEASED = { version: "0.1.0", not_before: new Date("2026-11-01T00:00:00Z") } as const;

/** The clock's time, or `RELEASED.not_before` when that is later. */
export const plausibleTime = (now: Date): Date => (now < RELEASED.not_before ? RELEASED.not_before : now);
