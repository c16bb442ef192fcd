import type { Limits } from "../../config.ts";
import type { Db } from "../../kernel/db.ts";
import { bytea, list, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";

const HOUR_MS = 3_600_000;
/** Most sessions of a token, which repeated sign-ins cannot exceed. */
export const SESSIONS_OF_TOKEN_MAX = 500;

const sessionRow = row({
  id: text,
  token_id: text,
  token_hash: bytea,
  current_org_id: text,
  expires_at: timestamptz,
  used_at: timestamptz,
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type SessionRow = RowOf<typeof sessionRow>;

/** Returns the time before which the last use of a session makes it idle. */
export const idleSince = (now: Date, { session_idle_hours }: Pick<Limits, "session_idle_hours">): Date =>
  new Date(now.getTime() - session_idle_hours * HOUR_MS);

/** Finds a session by its secret, before the org is known. */
export const findSession = (db: Db, hash: Buffer): Promise<SessionRow | undefined> =>
  db.maybe(sql(sessionRow)`select ${sessionRow} from web_session where hash = ${hash}`);

export const getSession = (db: Db, id: string): Promise<SessionRow> =>
  db.one(sql(sessionRow)`select ${sessionRow} from web_session where id = ${id}`);

export const insertSession = (db: Db, s: Omit<SessionRow, "used_at" | "updated_at"> & { hash: Buffer }): Promise<SessionRow> =>
  db.one(sql(sessionRow)`
    insert into web_session (id, hash, token_id, token_hash, current_org_id, expires_at, used_at, created_at, updated_at)
    values (${s.id}, ${s.hash}, ${s.token_id}, ${s.token_hash}, ${s.current_org_id}, ${s.expires_at}, ${s.created_at}, ${s.created_at}, ${s.created_at})
    returning ${sessionRow}`);

/** Deletes the least recently used sessions of a token above the limit. */
export const deleteSurplusSessions = (db: Db, token_id: string): Promise<number> =>
  db.run(sql`
    delete from web_session where token_id = ${token_id} and id in (
      select id from web_session where token_id = ${token_id} order by used_at desc, id desc offset ${SESSIONS_OF_TOKEN_MAX})`);

export const moveSession = (db: Db, id: string, org_id: string, now: Date): Promise<SessionRow> =>
  db.one(sql(sessionRow)`
    update web_session set current_org_id = ${org_id}, updated_at = ${now} where id = ${id} returning ${sessionRow}`);

export const deleteSession = (db: Db, id: string): Promise<number> => db.run(sql`delete from web_session where id = ${id}`);

/** Updates the last use of many sessions in one statement. Times never decrease. */
export const updateSessionsUsed = (db: Db, used: ReadonlyMap<string, Date>): Promise<number> =>
  db.run(sql`
    with v as (
      select v.id, v.at
      from (select * from unnest(${list(used.keys())}::text[], ${list(used.values())}::timestamptz[]) as v (id, at) order by id) v
      cross join lateral (select used_at from web_session where id = v.id for no key update) s
      where s.used_at < v.at)
    update web_session s set used_at = v.at from v where s.id = v.id`);

/** Deletes up to `limit` sessions that ended, or whose token ended, before those times. Skips the first `offset`. */
export const deleteEndedSessions = (db: Db, before: { expired: Date; idle: Date }, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    delete from web_session where id = any(array(
      select s.id from web_session s join credential c on c.id = s.token_id
      where s.expires_at < ${before.expired} or s.used_at < ${before.idle} or c.revoked_at < ${before.expired} or c.expires_at < ${before.expired}
      order by s.id limit ${limit} offset ${offset}))`);
