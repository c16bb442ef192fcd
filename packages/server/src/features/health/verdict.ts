import type { HealthBody } from "@roamfleet/protocol/link";

/** What a snapshot comes to. */
export interface Verdict {
  state: "ok" | "failing";
  /** What fails, in words for people. */
  failing: string[];
}

const FAILING_SHOWN = 20;

/** The robot grades its disks, memory, apps and all else by itself: what it calls an error fails, a warning does not. */
export function verdictOf({ checks, status }: Pick<HealthBody, "checks" | "status">): Verdict {
  const failed = checks.filter((check) => check.status === "error");
  if (failed.length === 0) return status === "error" ? { state: "failing", failing: ["the robot says so"] } : { state: "ok", failing: [] };
  return {
    state: "failing",
    failing: failed.slice(0, FAILING_SHOWN).map(({ name, message }) => (message === "" ? name : `${name}: ${message}`)),
  };
}
