import type { Actor } from "@roamfleet/protocol/routes";
import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import type { Orphan } from "../../kernel/close-event-writer.ts";
import { MAX_ID, type Window } from "../../kernel/page.ts";
import {
  bigint,
  bool,
  bytea,
  equals,
  int,
  json,
  jsonb,
  nullable,
  row,
  type RowOf,
  sql,
  text,
  textOf,
  timestamptz,
} from "../../kernel/sql.ts";

const sessionRow = row({
  org_id: text,
  id: text,
  robot_id: text,
  request_id: text,
  actor: jsonb<Actor>(),
  ip: text,
  app: nullable(text),
  command: nullable(jsonb<string[]>()),
  terminal: bool,
  status: textOf<"open" | "ended" | "aborted">(),
  exit_code: nullable(int),
  reason: nullable(text),
  started_at: timestamptz,
  ended_at: nullable(timestamptz),
  output_bytes: bigint,
  recording_bytes: bigint,
  recording_dropped_at: nullable(timestamptz),
});
export type SessionRow = RowOf<typeof sessionRow>;

/** The fields of a new session. */
export type NewSession = Pick<
  SessionRow,
  "org_id" | "id" | "robot_id" | "request_id" | "actor" | "ip" | "app" | "command" | "terminal" | "started_at"
>;

interface NodeRun {
  id: string;
  epoch: number;
}

export const insertSession = (db: Db, one: NewSession, node: NodeRun): Promise<number> =>
  db.run(sql`
    insert into shell_session (org_id, id, robot_id, request_id, actor, ip, app, command, terminal, status, node_id, node_epoch, started_at)
    values (${one.org_id}, ${one.id}, ${one.robot_id}, ${one.request_id}, ${json(one.actor)}, ${one.ip}, ${one.app},
      ${one.command === null ? null : json(one.command)}, ${one.terminal}, 'open', ${node.id}, ${node.epoch}, ${one.started_at})`);

/** The result of a session. */
export interface SessionEnd {
  status: "ended" | "aborted";
  exit_code: number | null;
  reason: string;
  /** When the session ended. Null if the time is unknown. */
  ended_at: Date | null;
}

/** Records the end of a session. Returns 0 if the session was already closed. */
export const endSession = (db: Db, org_id: string, id: string, end: SessionEnd): Promise<number> =>
  db.run(sql`
    update shell_session set status = ${end.status}, exit_code = ${end.exit_code}, reason = ${end.reason}, ended_at = ${end.ended_at}
    where org_id = ${org_id} and id = ${id} and status = 'open'`);

const heldRow = row({ held: bool });

/**
 * Stores a chunk of a recording and updates the totals of its session, in one statement. Returns true if the chunk is stored, by this or an
 * earlier attempt. Returns false if the session was closed before the chunk was stored.
 */
export const appendChunk = async (
  db: Db,
  {
    org_id,
    session_id,
    seq,
    bytes,
    output_bytes,
  }: { org_id: string; session_id: string; seq: number; bytes: Uint8Array; output_bytes: number },
): Promise<boolean> => {
  const { held } = await db.one(sql(heldRow)`
    with session as (
      select org_id, id from shell_session where org_id = ${org_id} and id = ${session_id} and status = 'open' for update
    ), chunk as (
      insert into shell_recording (org_id, session_id, seq, bytes) select org_id, id, ${seq}, ${bytes} from session
      on conflict do nothing returning octet_length(bytes) as size
    ), totals as (
      update shell_session set output_bytes = ${output_bytes}, recording_bytes = recording_bytes + chunk.size
      from chunk where org_id = ${org_id} and id = ${session_id}
    )
    select exists (select from session)
      or exists (select from shell_recording where org_id = ${org_id} and session_id = ${session_id} and seq = ${seq}) as held`);
  return held;
};

export const findSession = (db: Db, org_id: string, id: string): Promise<SessionRow | undefined> =>
  db.maybe(sql(sessionRow)`select ${sessionRow} from shell_session where org_id = ${org_id} and id = ${id}`);

/** Returns the sessions of a robot, newest first. */
export const listSessions = (db: Db, org_id: string, robot_id: string, { after, limit }: Window): Promise<SessionRow[]> =>
  db.many(sql(sessionRow)`
    select ${sessionRow} from shell_session
    where org_id = ${org_id} and robot_id = ${robot_id} and id < ${after ?? MAX_ID} order by id desc limit ${limit}`);

const namedRow = row({ ...sessionRow.columns, robot_name: text });
export type NamedSessionRow = RowOf<typeof namedRow>;

export interface SessionFilter {
  robot_id?: string | undefined;
  actor_id?: string | undefined;
  status?: SessionRow["status"] | undefined;
}

/** Returns the sessions on all robots that the caller sees, newest first. */
export const listAllSessions = (db: Db, caller: Caller, { robot_id, actor_id, status }: SessionFilter, { after, limit }: Window) =>
  // reads tables of other features: robot
  db.many(sql(namedRow)`
    select ${sessionRow.of("s")}, r.name as robot_name from shell_session s join robot r on r.org_id = s.org_id and r.id = s.robot_id
    where s.org_id = ${caller.org_id} and s.id < ${after ?? MAX_ID} ${visible(caller, "r.site_id", "r.fleet_id")}
      ${equals({ "s.robot_id": robot_id, "s.status": status, "s.actor_id": actor_id })}
    order by s.id desc limit ${limit}`);

const chunkRow = row({ seq: int, bytes: bytea });

export const chunksAfter = (db: Db, org_id: string, session_id: string, after: number, limit: number): Promise<RowOf<typeof chunkRow>[]> =>
  db.many(sql(chunkRow)`
    select ${chunkRow} from shell_recording where org_id = ${org_id} and session_id = ${session_id} and seq > ${after} order by seq limit ${limit}`);

/** Returns the open sessions of dead nodes, ordered by org and id. */
export const listOrphans = (db: Db, self: NodeRun, { after, limit }: { after: Orphan; limit: number }): Promise<SessionRow[]> =>
  // reads tables of other features: node
  db.many(sql(sessionRow)`
    -- across orgs: any node closes them
    select ${sessionRow} from shell_session s
    where status = 'open' and not (node_id = ${self.id} and node_epoch = ${self.epoch})
      and not exists (select from node n where n.id = s.node_id and n.epoch = s.node_epoch and not n.is_over)
      and (org_id, id) > (${after.org_id}, ${after.id})
    order by org_id, id limit ${limit}`);

const keptRow = row({ org_id: text, id: text, recording_bytes: bigint });
export type KeptRecording = RowOf<typeof keptRow>;

/** Returns the stored recordings of ended sessions that began before `before`, ordered by org and id, after the key `after`. */
export const listKeptBefore = (db: Db, before: Date, after: Orphan, limit: number): Promise<KeptRecording[]> =>
  db.many(sql(keptRow)`
    -- across orgs: retention is the same for all orgs
    select ${keptRow} from shell_session
    where recording_dropped_at is null and status <> 'open' and started_at < ${before} and (org_id, id) > (${after.org_id}, ${after.id})
    order by org_id, id limit ${limit}`);

const sumRow = row({ org_id: text, bytes: bigint });

export const listOrgsAbove = (db: Db, bytes_max: number): Promise<RowOf<typeof sumRow>[]> =>
  db.many(sql(sumRow)`
    -- across orgs: the limit is the same for all orgs
    select org_id, sum(recording_bytes)::bigint as bytes from shell_session where recording_dropped_at is null
    group by org_id having sum(recording_bytes) > ${bytes_max}`);

/** Returns the stored recordings of ended sessions of an org, oldest first. */
export const listOldestKept = (db: Db, org_id: string, limit: number): Promise<KeptRecording[]> =>
  db.many(sql(keptRow)`
    select ${keptRow} from shell_session
    where org_id = ${org_id} and recording_dropped_at is null and status <> 'open' and recording_bytes > 0 order by id limit ${limit}`);

/** Deletes the recording, but keeps the session. */
export async function dropRecording(db: Db, org_id: string, id: string, at: Date): Promise<void> {
  await db.run(sql`delete from shell_recording where org_id = ${org_id} and session_id = ${id}`);
  await db.run(sql`update shell_session set recording_dropped_at = ${at} where org_id = ${org_id} and id = ${id}`);
}

/** Deletes ended sessions that began before `before` and whose recordings were deleted, oldest first. Returns how many it deleted. */
export const deleteSessions = (db: Db, org_id: string, before: Date, limit: number): Promise<number> =>
  db.run(sql`
    delete from shell_session where org_id = ${org_id} and ctid = any(array(
      select ctid from shell_session
      where org_id = ${org_id} and started_at < ${before} and status <> 'open' and recording_dropped_at is not null
      order by id limit ${limit} for update skip locked))`);
