/** A signature dated further ahead than this comes from a machine with a wrong clock. */
export const AHEAD_MAX_MS = 86_400_000;
