import { type ChannelKind, ID_PREFIXES } from "@roamfleet/protocol";
import type { BodyOf, ChannelRoute, Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../../context.ts";
import { mapUniqueViolation } from "../../../engines/db/index.ts";
import type { Changed } from "../../../kernel/audit.ts";
import type { Caller } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import { badRequest, conflict, found, printable } from "../../../kernel/fault.ts";
import type { Bound } from "../../../kernel/master-keys.ts";
import { ensureOrgSecrets, openOrgSecrets } from "../../configs/index.ts";
import { announce } from "../../events/index.ts";
import type { ChannelSecrets } from "./message.ts";
import {
  type ChannelRow,
  countChannels,
  deleteChannel,
  insertChannel,
  listPlaceNames,
  lockChannel,
  type SealedRow,
  updateChannel,
} from "./store.ts";
import { newSigningSecret } from "./webhook-signature.ts";

const CHANNELS_MAX = 50;

/** Binds the encrypted part to its channel, so that it cannot be copied to another one. */
const channelBound = (id: string): Bound => ["alert channel", id];

/** Decrypts the secrets of a channel. */
export async function openChannel(
  db: Db,
  plane: Pick<Plane, "secrets">,
  org_id: string,
  { id, sealed }: Pick<SealedRow, "id" | "sealed">,
): Promise<ChannelSecrets> {
  return JSON.parse((await openOrgSecrets(db, plane, org_id)).open(sealed, channelBound(id))) as ChannelSecrets;
}

type Target = Pick<BodyOf<Routes["createChannel"]>, "url" | "routing_key" | "recipients">;

/** The fields of each kind: those it needs, and those it may have. */
const FIELDS: Record<ChannelKind, { needed: keyof Target; others: readonly (keyof Target)[] }> = {
  webhook: { needed: "url", others: [] },
  slack: { needed: "url", others: [] },
  pagerduty: { needed: "routing_key", others: ["url"] },
  email: { needed: "recipients", others: [] },
};

/** Returns the changed secrets of a channel. Throws 400 if a field does not belong to its kind, is missing or invalid. */
function withTarget(kind: ChannelKind, before: ChannelSecrets, { url, routing_key, recipients }: Target): ChannelSecrets {
  const { needed, others } = FIELDS[kind];
  const given = { url, routing_key, recipients };
  for (const field of ["url", "routing_key", "recipients"] as const) {
    if (given[field] === undefined) continue;
    if (field !== needed && !others.includes(field)) throw badRequest(`field ${field}: a channel of the kind ${kind} has none`);
  }
  if (url !== undefined && !/^https?:$/.test(URL.parse(url)?.protocol ?? "")) throw badRequest("field url: expected an http or https URL");
  const after = {
    ...before,
    ...(url === undefined ? {} : { url }),
    ...(routing_key === undefined ? {} : { routing_key }),
    ...(recipients === undefined ? {} : { recipients }),
  };
  if (after[needed] === undefined) throw badRequest(`field ${needed} is required for the kind ${kind}`);
  return after;
}

/** Returns the destination to show. Of a URL it is only the host, because the path may contain a secret. */
const destinationOf = ({ url, recipients }: ChannelSecrets): string =>
  recipients !== undefined ? recipients.join(", ") : url === undefined ? "PagerDuty" : new URL(url).host;

async function requirePlaces(tx: Db, org_id: string, routes: readonly ChannelRoute[]): Promise<void> {
  const named = routes.flatMap(({ site_id, fleet_id }) => [
    ...(site_id === undefined ? [] : ([["site", site_id]] as const)),
    ...(fleet_id === undefined ? [] : ([["fleet", fleet_id]] as const)),
  ]);
  if (named.length === 0) return;
  const there = new Map((await listPlaceNames(tx, org_id, [...new Set(named.map(([, id]) => id))])).map((place) => [place.id, place]));
  for (const [kind, id] of named) found(there.get(id), kind, id);
}

const nameConflict = (name: string): Error => conflict(`a channel with the name ${printable(name)} exists already`);

/** Creates a channel. A webhook gets a signing secret, which is returned only here. */
export async function createChannel(
  plane: Plane,
  db: Db,
  { org_id }: Caller,
  { name, kind, routes = [], ...target }: BodyOf<Routes["createChannel"]>,
): Promise<ChannelRow & { signing_secret: string | null }> {
  if (kind === "email" && plane.settings.smtp === undefined)
    throw conflict("this server has no mail server: its administrator must set ROAMFLEET_SMTP_URL and ROAMFLEET_SMTP_FROM");
  const signing_secret = kind === "webhook" ? newSigningSecret() : undefined;
  const secrets = withTarget(kind, { signing_secret }, target);
  return await db.transaction(async (tx) => {
    await requirePlaces(tx, org_id, routes);
    if ((await countChannels(tx, org_id)) >= CHANNELS_MAX) throw conflict(`the org has ${CHANNELS_MAX} channels: delete one first`);
    const id = plane.id(ID_PREFIXES.channel);
    const now = plane.clock.now();
    const sealed = (await ensureOrgSecrets(tx, plane, org_id)).seal(JSON.stringify(secrets), channelBound(id));
    const channel = { id, name, kind, destination: destinationOf(secrets), routes, disabled_at: null, created_at: now, updated_at: now };
    await mapUniqueViolation(insertChannel(tx, org_id, { ...channel, sealed }), () => nameConflict(name));
    announce(tx, plane, org_id, { kind: "channel", id, change: "created" });
    return { ...channel, signing_secret: signing_secret ?? null };
  });
}

export async function changeChannel(
  plane: Plane,
  db: Db,
  { org_id }: Caller,
  id: string,
  { name, routes, enabled, ...target }: BodyOf<Routes["updateChannel"]>,
): Promise<Changed<ChannelRow>> {
  return await db.transaction(async (tx) => {
    const { sealed, ...before } = found(await lockChannel(tx, org_id, id), "channel", id);
    const now = plane.clock.now();
    await requirePlaces(tx, org_id, routes ?? []);
    const channel = { ...before, name: name ?? before.name, routes: routes ?? before.routes, updated_at: now };
    if (enabled !== undefined) channel.disabled_at = enabled ? null : (before.disabled_at ?? now);
    let after = sealed;
    if (Object.values(target).some((value) => value !== undefined)) {
      const secrets = withTarget(before.kind, await openChannel(tx, plane, org_id, { id, sealed }), target);
      channel.destination = destinationOf(secrets);
      after = (await ensureOrgSecrets(tx, plane, org_id)).seal(JSON.stringify(secrets), channelBound(id));
    }
    await mapUniqueViolation(updateChannel(tx, org_id, { ...channel, sealed: after }), () => nameConflict(channel.name));
    announce(tx, plane, org_id, { kind: "channel", id, change: "updated" });
    return { before, after: channel };
  });
}

export async function removeChannel(plane: Plane, db: Db, { org_id }: Caller, id: string): Promise<ChannelRow> {
  return await db.transaction(async (tx) => {
    const { sealed: _, ...channel } = found(await lockChannel(tx, org_id, id), "channel", id);
    await deleteChannel(tx, org_id, id);
    announce(tx, plane, org_id, { kind: "channel", id, change: "removed" });
    return channel;
  });
}
