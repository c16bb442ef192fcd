import type { Db, SystemDb } from "../../../kernel/db.ts";
import { int, jsonb, row, type RowOf, sql, text, textOf, timestamptz } from "../../../kernel/sql.ts";
import type { DeliveryKind, DeliveryStatus } from "@roamfleet/protocol";
import type { AlertMessage } from "./message.ts";

const claimedRow = row({ org_id: text, id: text });
export type Claimed = RowOf<typeof claimedRow>;

/** Channels of one org to which messages are sent concurrently. */
const ORG_SENDS_MAX = 4;
/** Due channels that one claim considers, the longest overdue first. */
const CLAIM_ROWS_MAX = 500;

/**
 * Claims channels with a due message until `leased_until`, or until the message is sent. A channel is claimed by one node at a time, so it
 * gets one message at a time.
 */
export const claimChannels = (
  db: SystemDb,
  { now, leased_until, limit }: { now: Date; leased_until: Date; limit: number },
): Promise<Claimed[]> =>
  db.many(sql(claimedRow)`
    -- reads tables of other features: org
    with due as (
      select c.org_id, c.id, c.due_at from alert_channel c join org o on o.id = c.org_id
      where c.due_at <= ${now} and (c.leased_until is null or c.leased_until <= ${now}) and c.disabled_at is null and o.status = 'active'
      order by c.due_at limit ${CLAIM_ROWS_MAX}),
    turns as (
      select d.org_id, d.id, row_number() over (partition by d.org_id order by d.due_at) + (
        select count(*) from alert_channel l where l.org_id = d.org_id and l.leased_until > ${now}) as turn
      from due d),
    claimed as (
      select org_id, id from alert_channel c
      where (c.org_id, c.id) in (select org_id, id from turns where turn <= ${ORG_SENDS_MAX}) and c.due_at <= ${now}
        and (c.leased_until is null or c.leased_until <= ${now})
      order by c.due_at limit ${limit} for update skip locked)
    update alert_channel c set leased_until = ${leased_until} from claimed
    where c.org_id = claimed.org_id and c.id = claimed.id returning c.org_id, c.id`);

/**
 * The messages of a channel that may be sent now or later. A message waits for earlier ones about its incident: a resolution must not
 * overtake the opening.
 */
const ready = (org_id: string, channel_id: string) => sql`
  from alert_delivery d where d.org_id = ${org_id} and d.channel_id = ${channel_id} and d.status = 'pending' and not exists (
    select from alert_delivery e where e.org_id = d.org_id and e.channel_id = d.channel_id and e.incident_id = d.incident_id
      and e.status = 'pending' and (e.created_at, e.kind) < (d.created_at, d.kind))`;

const nextRow = row({ id: text, kind: textOf<DeliveryKind>(), message: jsonb<AlertMessage>(), attempts: int, give_up_at: timestamptz });
export type NextRow = RowOf<typeof nextRow>;

/** Returns the message that a claimed channel sends next; undefined if none is due. */
export const findNext = (db: Db, org_id: string, channel_id: string, now: Date): Promise<NextRow | undefined> =>
  db.maybe(sql(nextRow)`
    select ${nextRow.of("d")} ${ready(org_id, channel_id)} and d.next_attempt_at <= ${now} order by d.next_attempt_at, d.id limit 1`);

export interface Result {
  id: string;
  status: DeliveryStatus;
  detail: string;
  next_attempt_at: Date | null;
}

/** Stores the result of an attempt. */
export const putResult = (tx: Db, org_id: string, { id, status, detail, next_attempt_at }: Result, now: Date): Promise<number> =>
  tx.run(sql`
    update alert_delivery set attempts = attempts + 1, status = ${status}, detail = ${detail}, next_attempt_at = ${next_attempt_at},
      updated_at = ${now}
    where org_id = ${org_id} and id = ${id} and status = 'pending'`);

/**
 * Ends the lease of a channel, which the caller has locked, and sets when its next message is due. The lock is needed: a message that
 * another transaction adds meanwhile would be missed.
 */
export const releaseChannel = (
  tx: Db,
  { org_id, id }: Claimed,
  { leased_until, not_before }: { leased_until: Date; not_before: Date },
): Promise<number> =>
  tx.run(sql`
    update alert_channel set leased_until = null,
      due_at = (select greatest(min(d.next_attempt_at), case when count(*) > 0 then ${not_before}::timestamptz end) ${ready(org_id, id)})
    where org_id = ${org_id} and id = ${id} and leased_until = ${leased_until}`);
