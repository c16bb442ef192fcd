import type { Robot } from "@roamfleet/protocol/routes";
import { type Caller, visible } from "../../kernel/caller.ts";
import { containing, limited, MAX_ID } from "../../kernel/page.ts";
import type { Db } from "../../kernel/db.ts";
import { equals, json, row, sql, type Statement, text, unprepared } from "../../kernel/sql.ts";
import { type RobotStatus, robotRow } from "./store.ts";
import { type Part, readShown, shown, type ShownRobot } from "./store-shown.ts";

interface Label {
  key: string;
  value: string;
}

interface RobotFilter {
  status?: RobotStatus | undefined;
  fleet_id?: string | undefined;
  site_id?: string | undefined;
  labels: readonly Label[];
  q?: string | undefined;
  health?: Robot["health"] | undefined;
  /** Only robots that run this release. `app` is the app of the release. */
  release?: { id: string; app: string } | undefined;
  app?: string | undefined;
  release_state?: Robot["release_state"] | undefined;
  config_state?: Robot["config_state"] | undefined;
  approval?: Robot["approval"] | undefined;
  /** Three numbers separated by dots. */
  agent_older_than?: string | undefined;
}

type Sort = "newest" | "name";

/** Identifies the last robot of the previous page. */
export interface RobotKey {
  id: string;
  /** Present only if the list is sorted by name. */
  name?: string;
}

const STATUS_CONDITIONS: Record<RobotStatus | "any", Statement<unknown>> = {
  // Without a filter by status, decommissioned robots are not listed.
  any: sql`and r.decommissioned_at is null`,
  online: sql`and r.decommissioned_at is null and r.node_id is not null`,
  offline: sql`and r.decommissioned_at is null and r.node_id is null and r.last_seen_at is not null`,
  // last_seen_at and connected_at are null for the same robots. The condition names both, because only connected_at has an index: each
  // heartbeat changes last_seen_at.
  never_connected: sql`and r.decommissioned_at is null and r.last_seen_at is null and r.connected_at is null`,
  decommissioned: sql`and r.decommissioned_at is not null`,
};
const NOTHING = sql``;
const APPROVAL = { approved: sql`and r.approval_requested_at is null`, pending: sql`and r.approval_requested_at is not null` };

interface Window {
  sort: Sort;
  after: RobotKey | null;
  limit: number;
}

/** Lists robots, with the parts asked for. */
export const listRobots = (db: Db, caller: Caller, filter: RobotFilter, window: Window, parts: ReadonlySet<Part>): Promise<ShownRobot[]> =>
  readShown(db, listingRobots(caller, filter, window, parts));

/**
 * Returns the query for robots in the requested order after the cursor `after`. For the order by newest, a filter by state reads an index in
 * the order of robot ids, starting at the cursor. So rare states are found without reading every robot.
 */
export function listingRobots(
  caller: Pick<Caller, "org_id" | "grants" | "limit">,
  filter: RobotFilter,
  { sort, after, limit }: Window,
  parts: ReadonlySet<Part>,
): ReturnType<typeof shown> {
  const { status = "any", fleet_id, site_id, q, approval, agent_older_than } = filter;
  // Robots are found by the first label. The others are compared, so that the number of labels does not change the text.
  const [label, ...more_labels] = filter.labels;
  const from = sort === "newest" ? (after?.id ?? MAX_ID) : MAX_ID;
  const [joins, conditions] = [joinsOf(filter, sort, from), conditionsOf(filter, sort)];
  const robots = sql`
      select ${robotRow.of("r")} from robot r ${joins}
      where r.org_id = ${caller.org_id} ${STATUS_CONDITIONS[status]} ${approval === undefined ? NOTHING : APPROVAL[approval]} ${visible(caller, "r.site_id", "r.fleet_id")}
        ${equals({ "r.fleet_id": fleet_id, "r.site_id": site_id })}
        ${label === undefined || sort === "newest" ? NOTHING : sql`and exists (select from robot_label l where ${hasLabel(label)})`}
        ${more_labels.length === 0 ? NOTHING : sql`and r.labels @> ${json(Object.fromEntries(more_labels.map(({ key, value }) => [key, value])))}::jsonb`}
        ${agent_older_than === undefined ? NOTHING : agentOlderThan(agent_older_than)}
        ${q === undefined ? NOTHING : sql`and r.name ~ ${containing(q)}`} ${conditions}
        ${sort === "newest" ? sql`and r.id < ${from} order by r.id desc` : sql`${behindName(after)} order by r.name collate "C", r.id`}`;
  // The best plan for a rare value differs from that for a frequent one, so a plan for any value would not suit other filters.
  const page = isByPlace(filter) ? limited(robots, limit) : sql`${robots} limit ${limit}`;
  const listed = shown(caller.org_id, page, sort === "newest" ? sql`page.id desc` : sql`page.name collate "C", page.id`, parts);
  // A plan for any values expects few robots in the org, and compares each by name with each robot of the state.
  return sort === "newest" || isByPlace(filter) ? listed : unprepared(listed);
}

/** Whether a filter has only places and a status. */
const isByPlace = ({ labels, q, health, release, app, release_state, config_state, approval, agent_older_than }: RobotFilter): boolean =>
  labels.length === 0 &&
  [q, health, release, app, release_state, config_state, approval, agent_older_than].every((value) => value === undefined);

/**
 * Returns ` and …`, which selects the robots `r` whose agent is older than a version, given as three numbers. A robot may report any text as
 * its version: without three numbers, the substring is null and the robot does not match.
 */
export const agentOlderThan = (version: string): Statement<unknown> => sql`
  and string_to_array(substring(r.agent_version from '^([0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,9})(?![0-9.])'), '.')::int[]
    < string_to_array(${version}, '.')::int[]`;

const behindName = (after: RobotKey | null): Statement<unknown> =>
  after === null ? NOTHING : sql`and (r.name collate "C", r.id) > (${after.name ?? ""}, ${after.id})`;

/** Returns SQL joins with the tables in which a matching robot has a row. No join returns a robot more than once. */
function joinsOf(
  { labels: [label], health, release, app, release_state, config_state }: RobotFilter,
  sort: Sort,
  from: string,
): Statement<unknown> {
  return sql`
    ${label === undefined || sort === "name" ? NOTHING : sql`join robot_label l on ${hasLabel(label)} and l.robot_id < ${from}`}
    ${app !== undefined || release_state !== "unknown" ? NOTHING : sql`${UNKNOWN.release} and ur.robot_id < ${from}`}
    ${health === "unknown" ? sql`${UNKNOWN.health} and uh.robot_id < ${from}` : NOTHING}
    ${config_state === "unknown" ? sql`${UNKNOWN.config} and uc.robot_id < ${from}` : NOTHING}
    ${
      release === undefined
        ? NOTHING
        : sql`-- reads tables of other features: robot_app
          join robot_app runs on runs.org_id = r.org_id and runs.robot_id = r.id and runs.robot_id < ${from} and runs.app = ${release.app} and runs.current_release_id = ${release.id}`
    }
    ${
      app === undefined
        ? NOTHING
        : sql`-- reads tables of other features: robot_app
          join robot_app a on a.org_id = r.org_id and a.robot_id = r.id and a.robot_id < ${from} and a.app = ${app} ${release_state === undefined ? NOTHING : sql`and a.${RELEASE_STATES[release_state]}`}`
    }
    ${
      app !== undefined || release_state === undefined || release_state === "unknown" || sort === "name"
        ? NOTHING
        : sql`-- reads tables of other features: robot_app
          join (select distinct org_id, robot_id from robot_app where ${RELEASE_STATES[release_state]} and robot_id < ${from} order by org_id, robot_id desc) any_app
            on any_app.org_id = r.org_id and any_app.robot_id = r.id`
    }
    ${
      health === undefined || health === "unknown"
        ? NOTHING
        : sql`-- reads tables of other features: health_snapshot
          join health_snapshot h on h.org_id = r.org_id and h.robot_id = r.id and h.robot_id < ${from} ${HEALTH_STATES[health]}`
    }
    ${
      config_state === undefined || config_state === "unknown" || sort === "name"
        ? NOTHING
        : sql`-- reads tables of other features: robot_config
          join (select distinct org_id, robot_id from robot_config where ${CONFIG_STATES[config_state]} and robot_id < ${from} order by org_id, robot_id desc) c
            on c.org_id = r.org_id and c.robot_id = r.id`
    }`;
}

const hasLabel = ({ key, value }: Label): Statement<unknown> =>
  sql`l.org_id = r.org_id and l.robot_id = r.id and l.key = ${key} and l.value = ${value}`;

/** SQL joins that select robots without a release, health or a config. Triggers write the table: see migration 0022. */
const UNKNOWN = {
  release: sql`join robot_unknown ur on ur.org_id = r.org_id and ur.robot_id = r.id and ur.state = 'release'`,
  health: sql`join robot_unknown uh on uh.org_id = r.org_id and uh.robot_id = r.id and uh.state = 'health'`,
  config: sql`join robot_unknown uc on uc.org_id = r.org_id and uc.robot_id = r.id and uc.state = 'config'`,
};

// Each state is a literal instead of a parameter, so that the query planner takes into account how frequent that state is.
const RELEASE_STATES: Record<Robot["release_state"], Statement<unknown>> = {
  current: sql`state = 'current'`,
  behind: sql`state = 'behind'`,
  failed: sql`state = 'failed'`,
  unknown: sql`state = 'unknown'`,
};
const HEALTH_STATES = { ok: sql`and h.state = 'ok'`, failing: sql`and h.state = 'failing'` };
const CONFIG_STATES = { drifted: sql`state = 'drifted'`, pending: sql`state = 'pending'`, in_sync: sql`state = 'in_sync'` };

/**
 * Returns SQL conditions that exclude robots with a worse state than the filter's. For the order by name, also returns conditions that
 * replace the joins on states.
 */
function conditionsOf({ app, release_state, config_state }: RobotFilter, sort: Sort): Statement<unknown> {
  return sql`
    ${
      app !== undefined || release_state === undefined || release_state === "unknown" || sort === "newest"
        ? NOTHING
        : sql`-- reads tables of other features: robot_app
          and exists (select from robot_app a where a.org_id = r.org_id and a.robot_id = r.id and a.${RELEASE_STATES[release_state]})`
    }
    ${
      app !== undefined || release_state !== "current"
        ? NOTHING
        : sql`-- reads tables of other features: robot_app
          and not exists (select from robot_app w where w.org_id = r.org_id and w.robot_id = r.id and w.state in ('failed', 'behind'))`
    }
    ${
      config_state === undefined || config_state === "unknown" || sort === "newest"
        ? NOTHING
        : sql`-- reads tables of other features: robot_config
          and exists (select from robot_config c where c.org_id = r.org_id and c.robot_id = r.id and c.${CONFIG_STATES[config_state]})`
    }
    ${
      config_state === undefined || config_state === "unknown" || config_state === "drifted"
        ? NOTHING
        : sql`-- reads tables of other features: robot_config
          and not exists (select from robot_config w where w.org_id = r.org_id and w.robot_id = r.id and ${WORSE[config_state]})`
    }`;
}

const WORSE = {
  pending: sql`w.state = 'drifted'`,
  in_sync: sql`w.state in ('drifted', 'pending')`,
};

const releaseRow = row({ id: text, app: text });

/** Finds a release by id or tag. An id cannot be confused with a tag, because no tag has the form of an id. */
export const findRelease = (db: Db, org_id: string, id_or_tag: string): Promise<{ id: string; app: string } | undefined> =>
  // reads tables of other features: release
  db.maybe(sql(releaseRow)`select id, app from release where org_id = ${org_id} and (id = ${id_or_tag} or tag = ${id_or_tag})`);
