/** What the exit code says. Scripts build on these numbers: one is added, none is changed. */
export const EXIT = {
  ok: 0,
  error: 1,
  usage: 2,
  auth: 4,
  not_found: 5,
  conflict: 6,
  agent_offline: 7,
  not_applied: 8,
  interrupted: 130,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export const EXIT_MEANINGS: Record<ExitCode, string> = {
  0: "success",
  1: "an error that has no code of its own",
  2: "wrong usage: an unknown command or flag, or a value that cannot be",
  4: "not logged in, or not allowed",
  5: "something that was named does not exist",
  6: "in conflict with what is there",
  7: "the robot is not connected (`agent offline`)",
  8: "the deployment ended, and not as `applied`",
  130: "interrupted by Ctrl-C",
};
