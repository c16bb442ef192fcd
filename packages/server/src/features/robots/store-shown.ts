import type { Robot } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { jsonb, nullable, type RowOf, sql, type Statement, wiredRow } from "../../kernel/sql.ts";
import { robotRow } from "./store.ts";

/** Parts of a robot that are in long columns (`details`) or in other tables. Only those that a response needs are read. */
export type Part = "details" | "apps" | "releases" | "configs" | "health";
export const ALL_PARTS: ReadonlySet<Part> = new Set<Part>(["details", "apps", "releases", "configs", "health"]);

/** The state of an app. The database builds arrays faster than objects. */
export type AppFields = readonly [
  robot_id: string,
  app: string,
  current_id: string | null,
  desired_id: string | null,
  status: Robot["apps"][number]["status"],
  release_state: Robot["apps"][number]["release_state"],
];
type ConfigFields = readonly [robot_id: string, state: Robot["config_state"]];
type HealthFields = readonly [robot_id: string, health: Robot["health"], failing: string[]];

const { labels, public_key, agent_version, platform, ...short } = robotRow.columns;
const parts = {
  apps: nullable(jsonb<AppFields[]>()),
  tags: nullable(jsonb<(readonly [id: string, tag: string])[]>()),
  configs: nullable(jsonb<ConfigFields[]>()),
  health: nullable(jsonb<HealthFields[]>()),
};
const details = { labels, public_key, agent_version, platform };
const shortRow = wiredRow(short);
const longRow = wiredRow({ ...short, ...details });
const shownShortRow = wiredRow({ ...short, ...parts });
const shownLongRow = wiredRow({ ...short, ...details, ...parts });

/** A robot with the state of its apps, configs and health. A part that was not read is empty. */
export interface ShownRobot {
  row: RowOf<typeof shortRow>;
  details: Pick<RowOf<typeof longRow>, keyof typeof details> | undefined;
  apps: readonly AppFields[];
  /** Tags by release id, of the robots of the same page. */
  tags: ReadonlyMap<string, string>;
  config_state: Robot["config_state"];
  health: Robot["health"];
  failing: string[];
}

const NULL = sql`null::json`;
/** The ids of the page's robots. With an array PostgreSQL reads each table in one index scan, without a join that it could misplan. */
const IDS = sql`any((select ids from page_ids)::text[])`;
/** A value that is read once for the page, and returned with one of its rows. */
const once = (value: Statement<unknown>): Statement<unknown> => sql`case when page.id = (select last from page_ids) then (${value}) end`;

/**
 * Returns a query that adds to the robots of `page` the parts asked for. Each table is read once, by the ids of the page's robots. So the
 * time grows with the number of robots of the page, whatever numbers the query planner estimates.
 */
export const shown = (
  org_id: string,
  page: Statement<unknown>,
  order: Statement<unknown>,
  wanted: ReadonlySet<Part>,
): Statement<RowOf<typeof shownShortRow> & Partial<RowOf<typeof shownLongRow>>> =>
  // reads tables of other features: robot_app
  sql(wanted.has("details") ? (shownLongRow as unknown as typeof shownShortRow) : shownShortRow)`
    with page as (${page}), page_ids as (select array_agg(id) as ids, max(id) as last from page), app_of_page as (
      select robot_id, app, current_release_id, desired_release_id, status, state from robot_app where org_id = ${org_id} and robot_id = ${IDS})
    select ${(wanted.has("details") ? longRow : shortRow).of("page")},
      ${
        wanted.has("apps")
          ? once(
              sql`select json_agg(json_build_array(robot_id, app, current_release_id, desired_release_id, status, state)) from app_of_page`,
            )
          : NULL
      } as apps,
      ${
        wanted.has("releases")
          ? once(sql`-- reads tables of other features: release
              select json_agg(json_build_array(id, tag)) from release where org_id = ${org_id} and id = any(array(
              select current_release_id from app_of_page union select desired_release_id from app_of_page))`)
          : NULL
      } as tags,
      ${
        wanted.has("configs")
          ? once(sql`-- reads tables of other features: robot_config
                select json_agg(json_build_array(robot_id, state)) from robot_config where org_id = ${org_id} and robot_id = ${IDS}`)
          : NULL
      } as configs,
      ${
        wanted.has("health")
          ? once(
              sql`-- reads tables of other features: health_snapshot
                select json_agg(json_build_array(robot_id, state, failing)) from health_snapshot where org_id = ${org_id} and robot_id = ${IDS}`,
            )
          : NULL
      } as health
    from page order by ${order}`;

const CONFIG_SEVERITY: Record<Robot["config_state"], number> = { unknown: 0, in_sync: 1, pending: 2, drifted: 3 };

/** Runs a query of `shown`, and assigns what it read to the robots. */
export async function readShown(db: Db, query: ReturnType<typeof shown>): Promise<ShownRobot[]> {
  const rows = await db.many(query);
  const of_page = rows.find(({ apps, tags, configs, health }) => apps ?? tags ?? configs ?? health);
  const apps = Map.groupBy(of_page?.apps ?? [], ([robot_id]) => robot_id);
  const tags = new Map(of_page?.tags);
  const configs = new Map<string, Robot["config_state"]>();
  for (const [robot_id, state] of of_page?.configs ?? [])
    if (CONFIG_SEVERITY[state] >= CONFIG_SEVERITY[configs.get(robot_id) ?? "unknown"]) configs.set(robot_id, state);
  const health = new Map((of_page?.health ?? []).map((fields) => [fields[0], fields]));
  return rows.map((row) => {
    const reported = health.get(row.id);
    return {
      row,
      details: row.public_key === undefined ? undefined : (row as NonNullable<ShownRobot["details"]>),
      apps: apps.get(row.id)?.toSorted(([, a], [, b]) => (a < b ? -1 : 1)) ?? [],
      tags,
      config_state: configs.get(row.id) ?? "unknown",
      health: reported?.[1] ?? "unknown",
      failing: reported?.[2] ?? [],
    };
  });
}

export const findingRobot = (org_id: string, id: string): ReturnType<typeof shown> =>
  shown(org_id, sql`select ${robotRow} from robot where org_id = ${org_id} and id = ${id}`, sql`page.id`, ALL_PARTS);

export const findRobot = async (db: Db, org_id: string, id: string): Promise<ShownRobot | undefined> =>
  (await readShown(db, findingRobot(org_id, id)))[0];
