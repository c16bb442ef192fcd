import { idFloor } from "@roamfleet/clock";
import { sql, type Statement } from "./sql.ts";

const NOTHING = sql``;
/** A clock that was set back makes its next ids where the last ones were: ahead of their rows' times by as much. */
const AHEAD_MS_MAX = 3_600_000;

/**
 * ` and …`: rows of that time or later, whose ids were made when their column `at` was read. Ids are in the order of time, so
 * a list by id goes no further back than there, however much lies before.
 */
export const madeSince = (prefix: string, since: Date | undefined): Statement<unknown> =>
  since === undefined ? NOTHING : sql`and at >= ${since} and id >= ${idFloor(prefix, new Date(since.getTime() - AHEAD_MS_MAX))}`;

/** ` and …`: such rows of before; the list begins there, and not at its newest. */
export const madeBefore = (prefix: string, until: Date | undefined): Statement<unknown> =>
  until === undefined ? NOTHING : sql`and at < ${until} and id < ${idFloor(prefix, new Date(until.getTime() + AHEAD_MS_MAX))}`;
