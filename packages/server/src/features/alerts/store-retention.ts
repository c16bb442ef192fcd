import type { Db } from "../../kernel/db.ts";
import { sql } from "../../kernel/sql.ts";

type Delete = (db: Db, org_id: string, before: Date, limit: number, offset: number) => Promise<number>;

export const deleteOldMembers: Delete = (db, org_id, before, limit, offset) =>
  db.run(sql`
    delete from incident_member where org_id = ${org_id} and ctid = any(array(
      select m.ctid from incident i join incident_member m on m.org_id = i.org_id and m.incident_id = i.id
      where i.org_id = ${org_id} and i.resolved_at < ${before} order by m.incident_id, m.subject_id limit ${limit} offset ${offset}))`);

export const deleteOldEntries: Delete = (db, org_id, before, limit, offset) =>
  db.run(sql`
    delete from incident_entry where org_id = ${org_id} and ctid = any(array(
      select e.ctid from incident i join incident_entry e on e.org_id = i.org_id and e.incident_id = i.id
      where i.org_id = ${org_id} and i.resolved_at < ${before} order by e.incident_id, e.id limit ${limit} offset ${offset}))`);

export const deleteOldIncidents: Delete = (db, org_id, before, limit, offset) =>
  db.run(sql`
    delete from incident where org_id = ${org_id} and ctid = any(array(
      select ctid from incident where org_id = ${org_id} and resolved_at < ${before} order by resolved_at, id limit ${limit} offset ${offset}
      for update skip locked))`);

export const deleteOldMutes: Delete = (db, org_id, before, limit, offset) =>
  db.run(sql`
    delete from alert_mute where org_id = ${org_id} and ctid = any(array(
      select ctid from alert_mute where org_id = ${org_id} and until_at < ${before} order by until_at, id limit ${limit} offset ${offset}))`);
