/** Exit codes. Scripts depend on the numbers: codes may be added, never changed. */
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
  1: "any other error",
  2: "usage error: an unknown command or flag, or an invalid value",
  4: "not logged in, or permission denied",
  5: "a named object does not exist",
  6: "conflict with the current state",
  7: "the robot is not connected (`agent offline`)",
  8: "the deployment ended with a status other than `applied`",
  130: "interrupted by Ctrl-C",
};
