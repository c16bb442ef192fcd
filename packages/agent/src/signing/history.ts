import { contentDigest, type ReleaseStatement } from "@roamfleet/protocol/signatures";

/** What a robot remembers of the signed releases of an app that ran on it. It stands in the app's journal, written with the end of each. */
export interface SignedHistory {
  /** Highest version that ran. */
  highest: number;
  /** What is lower was withdrawn by the maker of a release that ran. */
  minimum: number;
  /** Latest time at which anything that ran was signed: it is later than that now, whatever clocks say. */
  latest_issued_at: string;
  /** Contents that ran, the latest last. */
  ran: string[];
}

/** Releases that may come back without a higher version. What is forgotten is refused, so forgetting is safe. */
export const RAN_MAX = 64;

/** The history after a release ran: nothing in it ever goes back. */
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
