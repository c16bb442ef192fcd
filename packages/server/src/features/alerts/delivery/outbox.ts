import { ID_PREFIXES } from "@roamfleet/protocol";
import type { ChannelRoute } from "@roamfleet/protocol/routes";
import type { Plane } from "../../../context.ts";
import type { Db } from "../../../kernel/db.ts";
import { planeState } from "../../../kernel/kernel-plane.ts";
import type { IncidentMessage } from "../incident-state.ts";
import type { IncidentRow } from "../store-incidents.ts";
import type { AlertMessage } from "./message.ts";
import { insertDeliveries, listEnabledChannels, listPlaceNames, listReported, listRobots, type NewDelivery } from "./store.ts";

/** Time after which a message that could not be sent is given up. */
export const GIVE_UP_MS = 24 * 3_600_000;

export type Queueing = Pick<Plane, "clock" | "id" | "state">;

/** Wakes the sender of this node, if it runs. Lost hints do no harm: the sender also runs on a timer. */
export const senderHint = planeState((_: Queueing): { wake: () => void } => ({ wake: () => {} }));

type Placed = Pick<IncidentRow, "severity" | "site_id" | "fleet_id">;

/** Returns whether a channel with these routes reports an incident. An incident of a whole site matches no route of a fleet. */
export const isRouted = (routes: readonly ChannelRoute[], { severity, site_id, fleet_id }: Placed): boolean =>
  routes.length === 0 ||
  routes.some(
    (route) =>
      (route.severities === undefined || route.severities.includes(severity)) &&
      (route.site_id === undefined || route.site_id === site_id) &&
      (route.fleet_id === undefined || route.fleet_id === fleet_id),
  );

/**
 * Writes messages about incidents to the outbox, in the transaction that stores the incidents. An opening goes to the channels whose routes
 * match, a resolution to those that got the opening.
 */
export async function queueMessages(
  tx: Db,
  plane: Queueing,
  org_id: string,
  messages: readonly { incident: IncidentRow; kind: IncidentMessage }[],
  now: Date,
): Promise<void> {
  if (messages.length === 0) return;
  const channels = await listEnabledChannels(tx, org_id);
  if (channels.length === 0) return;
  const reported = new Map<string, Set<string>>();
  for (const { incident_id, channel_id } of await listReported(
    tx,
    org_id,
    messages.map(({ incident }) => incident.id),
  ))
    reported.set(incident_id, (reported.get(incident_id) ?? new Set()).add(channel_id));
  const places = messages.flatMap(({ incident: { site_id, fleet_id } }) => [site_id, ...(fleet_id === null ? [] : [fleet_id])]);
  const names = new Map((await listPlaceNames(tx, org_id, [...new Set(places)])).map(({ id, name }) => [id, name]));
  const named = (id: string) => ({ id, name: names.get(id) ?? id });
  const of_one = messages.filter(({ incident }) => incident.member_count === 1).map(({ incident }) => incident.id);
  const robots = new Map((await listRobots(tx, org_id, of_one)).map(({ incident_id, id, name }) => [incident_id, { id, name }]));
  const deliveries: NewDelivery[] = [];
  for (const { incident, kind } of messages) {
    const of_incident = reported.get(incident.id) ?? new Set<string>();
    const to = channels.filter(({ id, routes }) => (kind === "opened" ? isRouted(routes, incident) : of_incident.has(id)));
    for (const { id: channel_id } of to) {
      const message = messageOf(incident, kind, now, { named, robot: robots.get(incident.id) ?? null });
      deliveries.push({ id: plane.id(ID_PREFIXES.delivery), channel_id, incident_id: incident.id, kind, message });
      // A resolution in the same step goes to the channels of its opening.
      if (kind === "opened") of_incident.add(channel_id);
    }
    reported.set(incident.id, of_incident);
  }
  await queueDeliveries(tx, plane, org_id, deliveries, now);
}

/** Appends messages to the outbox and wakes the sender after the commit. */
export async function queueDeliveries(
  tx: Db,
  plane: Queueing,
  org_id: string,
  deliveries: readonly NewDelivery[],
  now: Date,
): Promise<void> {
  if (deliveries.length === 0) return;
  await insertDeliveries(tx, org_id, deliveries, { now, give_up_at: new Date(now.getTime() + GIVE_UP_MS) });
  tx.afterCommit(() => senderHint(plane).wake());
}

const messageOf = (
  incident: IncidentRow,
  kind: IncidentMessage,
  now: Date,
  { named, robot }: { named: (id: string) => { id: string; name: string }; robot: AlertMessage["data"]["robot"] },
): AlertMessage => ({
  type: `incident.${kind}`,
  timestamp: now.toISOString(),
  data: {
    incident_id: incident.id,
    title: incident.title,
    severity: incident.severity,
    site: named(incident.site_id),
    fleet: incident.fleet_id === null ? null : named(incident.fleet_id),
    robot,
    member_count: incident.member_count,
    raised_at: incident.raised_at.toISOString(),
    resolved_at: incident.resolved_at?.toISOString() ?? null,
  },
});
