import type { ChannelKind, DeliveryKind, DeliveryStatus } from "@roamfleet/protocol";
import type { ChannelRoute } from "@roamfleet/protocol/routes";
import type { Db } from "../../../kernel/db.ts";
import { MAX_ID, type Window } from "../../../kernel/page.ts";
import { equals, int, json, jsonb, list, nullable, row, type RowOf, sql, text, textOf, timestamptz } from "../../../kernel/sql.ts";
import type { AlertMessage } from "./message.ts";

const channelRow = row({
  id: text,
  name: text,
  kind: textOf<ChannelKind>(),
  destination: text,
  routes: jsonb<ChannelRoute[]>(),
  disabled_at: nullable(timestamptz),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type ChannelRow = RowOf<typeof channelRow>;
const sealedRow = row({ ...channelRow.columns, sealed: text });
export type SealedRow = RowOf<typeof sealedRow>;

export const listChannels = (db: Db, org_id: string, { after, limit }: Window): Promise<ChannelRow[]> =>
  db.many(sql(channelRow)`
    select ${channelRow} from alert_channel where org_id = ${org_id} and id < ${after ?? MAX_ID} order by id desc limit ${limit}`);

export const findChannel = (db: Db, org_id: string, id: string): Promise<ChannelRow | undefined> =>
  db.maybe(sql(channelRow)`select ${channelRow} from alert_channel where org_id = ${org_id} and id = ${id}`);

export const findSealed = (db: Db, org_id: string, id: string): Promise<SealedRow | undefined> =>
  db.maybe(sql(sealedRow)`select ${sealedRow} from alert_channel where org_id = ${org_id} and id = ${id}`);

/** Locks a channel, also against messages that another transaction adds. */
export const lockChannel = (tx: Db, org_id: string, id: string): Promise<SealedRow | undefined> =>
  tx.maybe(sql(sealedRow)`select ${sealedRow} from alert_channel where org_id = ${org_id} and id = ${id} for update`);

const countRow = row({ count: int });
export const countChannels = async (db: Db, org_id: string): Promise<number> =>
  (await db.one(sql(countRow)`select count(*)::int as count from alert_channel where org_id = ${org_id}`)).count;

export const insertChannel = (tx: Db, org_id: string, channel: SealedRow): Promise<number> =>
  tx.run(sql`
    insert into alert_channel (org_id, id, name, kind, destination, sealed, routes, created_at, updated_at)
    values (${org_id}, ${channel.id}, ${channel.name}, ${channel.kind}, ${channel.destination}, ${channel.sealed}, ${json(channel.routes)},
      ${channel.created_at}, ${channel.updated_at})`);

/** Stores a channel that the caller has locked. */
export const updateChannel = (tx: Db, org_id: string, { id, ...channel }: SealedRow): Promise<number> =>
  tx.run(sql`
    update alert_channel set name = ${channel.name}, destination = ${channel.destination}, sealed = ${channel.sealed},
      routes = ${json(channel.routes)}, disabled_at = ${channel.disabled_at}, updated_at = ${channel.updated_at}
    where org_id = ${org_id} and id = ${id}`);

export const deleteChannel = (tx: Db, org_id: string, id: string): Promise<number> =>
  tx.run(sql`delete from alert_channel where org_id = ${org_id} and id = ${id}`);

const enabledRow = channelRow.only("id", "routes");

export const listEnabledChannels = (tx: Db, org_id: string): Promise<RowOf<typeof enabledRow>[]> =>
  tx.many(sql(enabledRow)`select ${enabledRow} from alert_channel where org_id = ${org_id} and disabled_at is null order by id`);

const reportedRow = row({ channel_id: text, incident_id: text });

/** Returns the enabled channels that got, or will get, a message about the opening of these incidents. */
export const listReported = (tx: Db, org_id: string, incidents: readonly string[]) =>
  tx.many(sql(reportedRow)`
    select distinct d.channel_id, d.incident_id from alert_delivery d join alert_channel c on c.org_id = d.org_id and c.id = d.channel_id
    where d.org_id = ${org_id} and d.incident_id = any(${list(incidents)}::text[]) and d.kind = 'opened' and c.disabled_at is null`);

const memberRow = row({ incident_id: text, id: text, name: text });

/** Returns the robots of these incidents, wherever they are now: a channel belongs to the org. */
export const listRobots = (tx: Db, org_id: string, incidents: readonly string[]) =>
  tx.many(sql(memberRow)`
    -- reads tables of other features: robot
    select m.incident_id, r.id, r.name from incident_member m join robot r on r.org_id = m.org_id and r.id = m.subject_id
    where m.org_id = ${org_id} and m.incident_id = any(${list(incidents)}::text[])`);

const placeRow = row({ id: text, name: text });

/** Returns the names of sites and fleets. */
export const listPlaceNames = (tx: Db, org_id: string, ids: readonly string[]) =>
  tx.many(sql(placeRow)`
    -- reads tables of other features: site, fleet
    select id, name from site where org_id = ${org_id} and id = any(${list(ids)}::text[])
    union all select id, name from fleet where org_id = ${org_id} and id = any(${list(ids)}::text[])`);

const deliveryRow = row({
  id: text,
  channel_id: text,
  incident_id: nullable(text),
  kind: textOf<DeliveryKind>(),
  status: textOf<DeliveryStatus>(),
  attempts: int,
  detail: nullable(text),
  next_attempt_at: nullable(timestamptz),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type DeliveryRow = RowOf<typeof deliveryRow>;

export const listDeliveries = (
  db: Db,
  org_id: string,
  { channel_id, status }: { channel_id: string; status: DeliveryStatus | undefined },
  { after, limit }: Window,
): Promise<DeliveryRow[]> =>
  db.many(sql(deliveryRow)`
    select ${deliveryRow} from alert_delivery where org_id = ${org_id} and channel_id = ${channel_id} and id < ${after ?? MAX_ID}
      ${equals({ status })} order by id desc limit ${limit}`);

export const findDelivery = (db: Db, org_id: string, id: string): Promise<DeliveryRow | undefined> =>
  db.maybe(sql(deliveryRow)`select ${deliveryRow} from alert_delivery where org_id = ${org_id} and id = ${id}`);

export interface NewDelivery {
  id: string;
  channel_id: string;
  incident_id: string | null;
  kind: DeliveryKind;
  message: AlertMessage;
}

/** Maximum pending messages of a channel, whose receiver is down or whose org opens incidents continuously. */
const PENDING_MAX = 1_000;

/** Appends messages to the outbox. A message to a channel with PENDING_MAX pending ones is only logged. */
export const insertDeliveries = (
  tx: Db,
  org_id: string,
  deliveries: readonly NewDelivery[],
  { now, give_up_at }: { now: Date; give_up_at: Date },
): Promise<number> =>
  tx.run(sql`
    with added as (
      insert into alert_delivery (org_id, id, channel_id, incident_id, kind, message, status, detail, next_attempt_at, give_up_at, created_at, updated_at)
      select ${org_id}, v.id, v.channel_id, v.incident_id, v.kind, v.message, case when full_at then 'failed' else 'pending' end,
        case when full_at then 'too many messages of the channel are pending' end, case when not full_at then ${now}::timestamptz end,
        ${give_up_at}, ${now}, ${now}
      from jsonb_to_recordset(${json(deliveries)}::jsonb) as v (id text, channel_id text, incident_id text, kind text, message jsonb)
      cross join lateral (
        select count(*) >= ${PENDING_MAX}::int as full_at from alert_delivery p
        where p.org_id = ${org_id} and p.channel_id = v.channel_id and p.status = 'pending') c)
    update alert_channel set due_at = least(due_at, ${now}::timestamptz)
    where org_id = ${org_id} and id = any(${list(deliveries.map(({ channel_id }) => channel_id))}::text[])`);

/** Makes a finished delivery pending again. The caller has locked its channel. */
export const reviveDelivery = (
  tx: Db,
  org_id: string,
  { id, channel_id }: Pick<DeliveryRow, "id" | "channel_id">,
  { now, give_up_at }: { now: Date; give_up_at: Date },
): Promise<number> =>
  tx.run(sql`
    with revived as (
      update alert_delivery set status = 'pending', next_attempt_at = ${now}, give_up_at = ${give_up_at}, updated_at = ${now}
      where org_id = ${org_id} and id = ${id})
    update alert_channel set due_at = least(due_at, ${now}::timestamptz) where org_id = ${org_id} and id = ${channel_id}`);

const IS_OVER = sql`d.status <> 'pending' and not exists (
  select from incident i where i.org_id = d.org_id and i.id = d.incident_id and i.status <> 'resolved')`;

/** Deletes finished messages, except those of unresolved incidents: their channels get the message about the resolution. */
export const deleteDeliveries = (db: Db, org_id: string, before: Date, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    delete from alert_delivery where org_id = ${org_id} and id in (
      select d.id from alert_delivery d where d.org_id = ${org_id} and d.updated_at < ${before} and ${IS_OVER}
      order by d.id limit ${limit} offset ${offset})`);
