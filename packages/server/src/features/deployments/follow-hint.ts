/** A fleet has a different release or config, or follows again: its members must be checked. */
export const HINT_FOLLOW = "rf.deployments.follow";
