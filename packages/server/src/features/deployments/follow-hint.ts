/** A fleet has something else, or follows again: its members are to be looked at. */
export const HINT_FOLLOW = "rf.deployments.follow";
