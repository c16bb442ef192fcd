import type { Actor } from "@roamfleet/protocol/routes";
import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { MAX_ID, type Window } from "../../kernel/page.ts";
import { int, json, jsonb, list, nullable, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";

const muteRow = row({
  id: text,
  site_id: nullable(text),
  fleet_id: nullable(text),
  rule_id: nullable(text),
  from_at: timestamptz,
  until_at: timestamptz,
  reason: nullable(text),
  created_by: jsonb<Actor>(),
  created_at: timestamptz,
});
export type MuteRow = RowOf<typeof muteRow>;

/** Returns the mutes that have not ended and that the caller may see, newest first: those of the whole org, and those of its sites and fleets. */
export const listMutes = (db: Db, caller: Caller, now: Date, { after, limit }: Window): Promise<MuteRow[]> =>
  db.many(sql(muteRow)`
    select ${muteRow} from alert_mute where org_id = ${caller.org_id} and until_at > ${now} and id < ${after ?? MAX_ID}
      and (site_id is null and fleet_id is null or (true ${visible(caller, "site_id", "fleet_id")}))
    order by id desc limit ${limit}`);

export const findMute = (db: Db, org_id: string, id: string): Promise<MuteRow | undefined> =>
  db.maybe(sql(muteRow)`select ${muteRow} from alert_mute where org_id = ${org_id} and id = ${id}`);

export const insertMute = (db: Db, org_id: string, mute: MuteRow): Promise<number> =>
  db.run(sql`
    insert into alert_mute (org_id, ${muteRow})
    values (${org_id}, ${mute.id}, ${mute.site_id}, ${mute.fleet_id}, ${mute.rule_id}, ${mute.from_at}, ${mute.until_at}, ${mute.reason},
      ${json(mute.created_by)}, ${mute.created_at})`);

export const deleteMute = (db: Db, org_id: string, id: string): Promise<number> =>
  db.run(sql`delete from alert_mute where org_id = ${org_id} and id = ${id}`);

const countRow = row({ count: int });
export const countMutes = async (db: Db, org_id: string, now: Date): Promise<number> =>
  (await db.one(sql(countRow)`select count(*)::int as count from alert_mute where org_id = ${org_id} and until_at > ${now}`)).count;

const mutedRow = row({ id: text });

/**
 * Returns which of these incidents are muted now. A mute of a fleet also mutes an incident of a site if all robots that match now are in
 * the fleet.
 */
export const listMuted = async (db: Db, org_id: string, incidents: readonly string[], now: Date): Promise<Set<string>> =>
  new Set(
    (
      await db.many(sql(mutedRow)`
        -- reads tables of other features: robot
        select i.id from incident i where i.org_id = ${org_id} and i.id = any(${list(incidents)}::text[]) and exists (
          select from alert_mute m where m.org_id = ${org_id} and m.from_at <= ${now} and m.until_at > ${now}
            and (m.site_id is null or m.site_id = i.site_id) and (m.rule_id is null or m.rule_id = i.rule_id)
            and (m.fleet_id is null or m.fleet_id = i.fleet_id or i.fleet_id is null and not exists (
              select from alert_match a join robot r on r.org_id = ${org_id} and r.id = a.subject_id
              where a.org_id = ${org_id} and a.incident_id = i.id and r.fleet_id <> m.fleet_id)))`)
    ).map(({ id }) => id),
  );
