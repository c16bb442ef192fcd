import { contentDigest, type ReleaseStatement } from "@roamfleet/protocol/signatures";

/** What a robot remembers of the signed releases of an app that ran on it. It is part of the app's journal, and updated after each success. */
export interface SignedHistory {
  /** Highest version that ran. */
  highest: number;
  /** Lower versions were withdrawn by the maker of a release that ran. */
  minimum: number;
  /** Latest signing time of any release that ran: a lower bound of the current time, independent of all clocks. */
  latest_issued_at: string;
  /** Content digests of releases that ran, newest last. */
  ran: string[];
}

/** Releases that may be installed again without a higher version. An evicted one is refused, so eviction is safe. */
export const RAN_MAX = 64;

/** Returns the history after a release ran; its numbers never decrease. */
export function afterRun(history: SignedHistory | undefined, statement: ReleaseStatement): SignedHistory {
  const { highest = 0, minimum = 0, latest_issued_at = statement.issued_at, ran = [] } = history ?? {};
  const content = contentDigest(statement);
  return {
    highest: Math.max(highest, statement.version),
    minimum: Math.max(minimum, statement.minimum_version),
    latest_issued_at: Date.parse(statement.issued_at) > Date.parse(latest_issued_at) ? statement.issued_at : latest_issued_at,
    ran: [...ran.filter((one) => one !== content), content].slice(-RAN_MAX),
  };
}
