export interface ShellSearch {
  /** Opens the shell in this app. */
  app?: string;
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== "" && value.length <= 100;

export const readShellSearch = ({ app }: Record<string, unknown>): ShellSearch => (isText(app) ? { app } : {});

const STATUSES = ["open", "ended", "aborted"] as const;
export interface ShellsSearch {
  robot_id?: string;
  actor_id?: string;
  status?: (typeof STATUSES)[number];
}

export function readShellsSearch({ robot_id, actor_id, status }: Record<string, unknown>): ShellsSearch {
  const known = STATUSES.find((one) => one === status);
  return {
    ...(isText(robot_id) ? { robot_id } : {}),
    ...(isText(actor_id) ? { actor_id } : {}),
    ...(known === undefined ? {} : { status: known }),
  };
}
