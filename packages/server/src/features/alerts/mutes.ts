import { ID_PREFIXES } from "@roamfleet/protocol";
import type { BodyOf, Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { type Caller, requireReached, roleOn } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, found, notFound } from "../../kernel/fault.ts";
import { parseTime } from "../../kernel/time.ts";
import { announce } from "../events/index.ts";
import { requirePlace } from "./place.ts";
import { readRule } from "./rules.ts";
import { countMutes, deleteMute, findMute, insertMute, type MuteRow } from "./store-mutes.ts";

type NewMute = BodyOf<Routes["createAlertMute"]>;
type Changing = Pick<Plane, "clock" | "id" | "bus">;

/** Maximum mutes of an org that have not ended. */
const MUTES_MAX = 200;

/** Creates a mute. A mute of only a rule has the site and fleet of the rule. */
export async function createMute(db: Db, plane: Changing, caller: Caller, body: NewMute): Promise<MuteRow> {
  const { org_id } = caller;
  const now = plane.clock.now();
  const from_at = body.from_at === undefined ? now : parseTime(body.from_at);
  const until_at = parseTime(body.until_at);
  if (until_at <= from_at || until_at <= now) throw badRequest("until_at must be later than from_at and the present");
  return await db.transaction(async (tx) => {
    const rule = body.rule_id === undefined ? undefined : await readRule(tx, org_id, body.rule_id);
    const is_placed = body.site_id !== undefined || body.fleet_id !== undefined;
    const place =
      is_placed || rule === undefined ? await requirePlace(tx, org_id, body) : { site_id: rule.site_id, fleet_id: rule.fleet_id };
    const id = plane.id(ID_PREFIXES.alert_mute);
    requireReached(roleOn(caller, place) ?? "viewer", "operator", () => notFound("alert mute", id));
    if ((await countMutes(tx, org_id, now)) >= MUTES_MAX) throw conflict(`an org may have ${MUTES_MAX} alert mutes; delete one first`);
    const { rule_id = null, reason = null } = body;
    const mute: MuteRow = { id, ...place, rule_id, from_at, until_at, reason, created_by: caller.actor, created_at: now };
    await insertMute(tx, org_id, mute);
    announce(tx, plane, org_id, { kind: "alert_mute", id, change: "created", places: [place] });
    return mute;
  });
}

/** Deletes a mute and returns it. Messages that it delayed are sent if their incident is still unresolved. */
export async function removeMute(db: Db, plane: Changing, { org_id }: Caller, id: string): Promise<MuteRow> {
  const mute = found(await findMute(db, org_id, id), "alert mute", id);
  await deleteMute(db, org_id, id);
  const { site_id, fleet_id } = mute;
  announce(db, plane, org_id, { kind: "alert_mute", id, change: "removed", places: [{ site_id, fleet_id }] });
  return mute;
}
