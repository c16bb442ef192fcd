import { idFloor } from "@roamfleet/clock";
import { sql, type Statement } from "./sql.ts";

const NOTHING = sql``;
/** After a clock was set back, new ids continue from the last ones, so they are ahead of their rows' times by up to this much. */
const AHEAD_MS_MAX = 3_600_000;

/**
 * Returns ` and …` for rows at or after `since` whose ids were created at the time of their column `at`. Because ids are ordered by time, a
 * list ordered by id does not scan older rows.
 */
export const madeSince = (prefix: string, since: Date | undefined): Statement<unknown> =>
  since === undefined ? NOTHING : sql`and at >= ${since} and id >= ${idFloor(prefix, new Date(since.getTime() - AHEAD_MS_MAX))}`;

/** Returns ` and …` for rows before `until`. A list ordered by id then starts there instead of at the newest row. */
export const madeBefore = (prefix: string, until: Date | undefined): Statement<unknown> =>
  until === undefined ? NOTHING : sql`and at < ${until} and id < ${idFloor(prefix, new Date(until.getTime() + AHEAD_MS_MAX))}`;
