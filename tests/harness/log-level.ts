const SEVERE = new Map([
  ["warn", ["warn", "error", "fatal"]],
  ["error", ["error", "fatal"]],
]);

/** Whether a parsed line of the server's log has this level or a more severe one. */
export const isAtLeast = (least: "warn" | "error", { level }: { level?: unknown }): boolean =>
  SEVERE.get(least)?.includes(String(level)) === true;
