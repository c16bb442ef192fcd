/** What is signed with a date further ahead than this comes from a machine whose clock is wrong. */
export const AHEAD_MAX_MS = 86_400_000;
