import type { HealthBody } from "@roamfleet/protocol/link";

/** The result of a snapshot's checks. */
export interface Verdict {
  state: "ok" | "failing";
  /** The failing checks, as text for users. */
  failing: string[];
}

const FAILING_SHOWN = 20;

/** Returns the verdict on a snapshot. The robot grades disks, memory, apps and all else: its errors count as failing, warnings do not. */
export function verdictOf({ checks, status }: Pick<HealthBody, "checks" | "status">): Verdict {
  const failed = checks.filter((check) => check.status === "error");
  if (failed.length === 0)
    return status === "error" ? { state: "failing", failing: ["the robot reports an error"] } : { state: "ok", failing: [] };
  return {
    state: "failing",
    failing: failed.slice(0, FAILING_SHOWN).map(({ name, message }) => (message === "" ? name : `${name}: ${message}`)),
  };
}
