import { ID_PREFIXES, type IncidentEntryKind } from "@roamfleet/protocol";
import type { Incident } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, found } from "../../kernel/fault.ts";
import { queueMessages, type Queueing } from "./delivery/index.ts";
import { announceIncidents } from "./evaluate.ts";
import { type IncidentMessage, resolveByPerson } from "./incident-state.ts";
import { type IncidentRow, insertIncidentEntries, lockIncident, putIncidents, setAssignee } from "./store-incidents.ts";
import { findIncident, findMemberName } from "./store-shown.ts";

/** A change of an incident by a person. */
interface PersonalChange {
  /** Null: the incident already is as requested, so nothing is written. */
  incident: IncidentRow | null;
  kind: IncidentEntryKind;
  comment?: string | null;
  messages?: readonly IncidentMessage[];
}

type Changing = Queueing & Pick<Plane, "bus">;

/** Returns an incident, or throws 404. */
export const readIncident = async (db: Db, org_id: string, id: string): Promise<Incident> =>
  found(await findIncident(db, org_id, id), "incident", id);

/** Applies a change and writes its entry while the incident is locked, so that an evaluation sees all of it or nothing. */
async function changeIncident(
  db: Db,
  plane: Changing,
  { org_id, actor }: Pick<Caller, "org_id" | "actor">,
  id: string,
  change: (incident: IncidentRow, tx: Db, now: Date) => PersonalChange | Promise<PersonalChange>,
): Promise<Incident> {
  return await db.transaction(async (tx) => {
    const now = plane.clock.now();
    const {
      incident,
      kind,
      comment = null,
      messages = [],
    } = await change(found(await lockIncident(tx, org_id, id), "incident", id), tx, now);
    if (incident !== null) {
      await putIncidents(tx, org_id, [{ ...incident, updated_at: now }]);
      await insertIncidentEntries(tx, org_id, [{ id: plane.id(ID_PREFIXES.event), incident_id: id, kind, actor, comment }], now);
      announceIncidents(tx, plane, org_id, [incident]);
      const queued = messages.map((message) => ({ incident, kind: message }));
      await queueMessages(tx, plane, org_id, queued, now);
    }
    return await readIncident(tx, org_id, id);
  });
}

export const acknowledge = (db: Db, plane: Changing, caller: Caller, id: string): Promise<Incident> =>
  changeIncident(db, plane, caller, id, (incident, _, now) => {
    if (incident.status === "resolved") throw conflict(`incident ${id} is already resolved`);
    const changed = incident.status === "open" ? { ...incident, status: "acknowledged" as const, acknowledged_at: now } : null;
    return { incident: changed, kind: "acknowledged" };
  });

export const resolve = (db: Db, plane: Changing, caller: Caller, id: string, comment: string | undefined): Promise<Incident> =>
  changeIncident(db, plane, caller, id, (incident, _, now) => {
    if (incident.status === "resolved") throw conflict(`incident ${id} is already resolved`);
    const { incident: resolved, messages } = resolveByPerson(incident, now);
    return { incident: resolved, kind: "resolved", comment: comment ?? null, messages };
  });

export const addComment = (db: Db, plane: Changing, caller: Caller, id: string, comment: string): Promise<Incident> =>
  changeIncident(db, plane, caller, id, (incident) => ({ incident, kind: "commented", comment }));

/** Assigns an incident to a user of the org, by default the caller; null removes the assignee. */
export const assign = (db: Db, plane: Changing, caller: Caller, id: string, user_id: string | null | undefined): Promise<Incident> =>
  changeIncident(db, plane, caller, id, async (incident, tx) => {
    const assignee_id = user_id === undefined ? ownId(caller) : user_id;
    const name = assignee_id === null ? null : found(await findMemberName(tx, caller.org_id, assignee_id), "user", assignee_id);
    if (assignee_id === incident.assignee_id) return { incident: null, kind: "assigned" };
    await setAssignee(tx, caller.org_id, id, assignee_id);
    return { incident, kind: "assigned", comment: name };
  });

/** Returns the id of the user who sent the request. */
function ownId({ actor }: Caller): string {
  if (actor.type !== "user" || actor.id === null) throw badRequest("user_id is required: the token does not belong to a user");
  return actor.id;
}
