import { ID_PREFIXES, type IncidentEntryKind } from "@roamfleet/protocol";
import { versionNumbers } from "@roamfleet/protocol/agent-version";
import type { Plane } from "../../context.ts";
import packageJson from "../../../package.json" with { type: "json" };
import { SYSTEM } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { sql, type Statement } from "../../kernel/sql.ts";
import { announce } from "../events/index.ts";
import { queueMessages, type Queueing } from "./delivery/index.ts";
import { type Candidate, type IncidentMessage, joinedIncident, openIncident, REOPEN_WINDOW_MS, stepIncident } from "./incident-state.ts";
import { matchesOf } from "./store-conditions.ts";
import {
  CHANGES_MAX,
  countMembers,
  type DueRow,
  type IncidentRow,
  insertIncidentEntries,
  joinIncident,
  leaveIncident,
  listDueMatches,
  listMembersAmong,
  lockIncidents,
  putIncidents,
  syncMatches,
} from "./store-incidents.ts";
import { listMuted } from "./store-mutes.ts";
import { claimEvaluation, continueEvaluation, listEnabledRules, planEvaluation, type RuleRow } from "./store-rules.ts";

type Evaluating = Queueing & Pick<Plane, "bus">;

/** Interval of an org's evaluations. */
const EVALUATE_EVERY_MS = 10_000;
/** An evaluation of an org with very many robots may take seconds. The next one then waits until it has taken at most this share of the time. */
const BUSY_SHARE_MAX = 0.1;
/** Agents with an older version are outdated unless the condition names a version. */
export const SERVER_VERSION = versionNumbers(packageJson.version) ?? "0.0.0";

/**
 * Evaluates the rules of an org in one transaction: stores what matches now, opens, joins, reopens and resolves incidents. Does nothing if
 * another node is evaluating the org or has just done so. A crash at any point rolls back all of it, and the next evaluation repeats it.
 * Returns true if there was more to change than one evaluation may, so that the next one must follow at once.
 */
export async function evaluateOrg(db: Db, plane: Evaluating, org_id: string): Promise<boolean> {
  const { clock } = plane;
  const began_ms = clock.monotonic();
  return await db.transaction(async (tx) => {
    const now = clock.now();
    if (!(await claimEvaluation(tx, org_id, now, new Date(now.getTime() + EVALUATE_EVERY_MS)))) return false;
    const has_more = await evaluateRules(tx, plane, org_id, now);
    if (has_more) {
      await continueEvaluation(tx, org_id, now);
      return true;
    }
    const wait_ms = (clock.monotonic() - began_ms) / BUSY_SHARE_MAX;
    if (wait_ms > EVALUATE_EVERY_MS) await planEvaluation(tx, org_id, new Date(now.getTime() + wait_ms));
    return false;
  });
}

async function evaluateRules(tx: Db, plane: Evaluating, org_id: string, now: Date): Promise<boolean> {
  const rules = await listEnabledRules(tx, org_id);
  const { ended, has_more } = await syncMatches(tx, org_id, currentMatches(rules, org_id, now), now);
  for (const [id, subjects] of ended) await leaveIncident(tx, org_id, id, subjects, now);
  const due = await listDueMatches(tx, org_id, now);
  const incidents = await lockIncidents(tx, org_id, new Date(now.getTime() - REOPEN_WINDOW_MS));
  if (due.length > 0 || incidents.some(({ status }) => status !== "resolved")) {
    const joined = await joinDue(tx, plane, org_id, { rules, due, incidents, now });
    await stepAll(tx, plane, org_id, { incidents, joined, now });
  }
  return has_more || due.length === CHANGES_MAX;
}

/** Returns a query for the current matches of all rules. Robots are grouped by site, or by fleet if the rule is limited to one. */
function currentMatches(rules: readonly RuleRow[], org_id: string, now: Date): Statement<unknown> {
  const context = { org_id, now, server_version: SERVER_VERSION };
  let all = sql`select null::text as rule_id, null::text as group_id, null::text as subject_id, null::text as site_id, null::text as fleet_id where false`;
  for (const { id, condition, ...scope } of rules) {
    const by_fleet = scope.fleet_id !== null || condition.type.startsWith("deployment");
    const place = by_fleet
      ? sql`coalesce(c.fleet_id, c.site_id), c.subject_id, c.site_id, c.fleet_id`
      : sql`c.site_id, c.subject_id, c.site_id, null`;
    all = sql`${all} union all select ${id}::text, ${place} from (${matchesOf(condition, scope, context)}) c`;
  }
  return all;
}

interface Work {
  rules: readonly RuleRow[];
  due: readonly DueRow[];
  /** The locked incidents. New ones are appended. */
  incidents: IncidentRow[];
  now: Date;
}

/** Adds the due matches to incidents. Returns the ids of incidents that got members. */
async function joinDue(tx: Db, plane: Evaluating, org_id: string, { rules, due, incidents, now }: Work): Promise<Set<string>> {
  if (due.length === 0) return new Set();
  const members = Map.groupBy(
    await listMembersAmong(
      tx,
      org_id,
      incidents.map(({ id }) => id),
      due.map(({ subject_id }) => subject_id),
    ),
    ({ incident_id }) => incident_id,
  );
  const groupOf = ({ rule_id, group_id }: { rule_id: string; group_id: string }): string => `${rule_id} ${group_id}`;
  const candidates = Map.groupBy(
    incidents.map((incident): Candidate => ({
      ...incident,
      members: new Set(members.get(incident.id)?.map(({ subject_id }) => subject_id)),
    })),
    groupOf,
  );
  const rule_of = new Map(rules.map((rule) => [rule.id, rule]));
  const subjects = new Map<Candidate, string[]>();
  const added: IncidentRow[] = [];
  for (const match of due) {
    const rule = rule_of.get(match.rule_id);
    if (rule === undefined) continue;
    const of_group = candidates.get(groupOf(match)) ?? [];
    let candidate = joinedIncident(match, of_group, now);
    if (candidate === undefined) {
      const incident = newIncident(plane.id(ID_PREFIXES.incident), rule, match, now);
      added.push(incident);
      candidate = { ...incident, members: new Set() };
      candidates.set(groupOf(match), [...of_group, candidate]);
    }
    const of_incident = subjects.get(candidate) ?? [];
    of_incident.push(match.subject_id);
    subjects.set(candidate, of_incident);
  }
  if (added.length > 0) {
    await putIncidents(tx, org_id, added);
    await writeEntries(
      tx,
      plane,
      org_id,
      added.map(({ id }) => ({ incident_id: id, kind: "opened" as const })),
      now,
    );
    for (const { id, site_id, fleet_id } of added)
      announce(tx, plane, org_id, { kind: "incident", id, change: "created", places: [{ site_id, fleet_id }] });
    incidents.push(...added);
  }
  for (const [candidate, of_incident] of subjects) await joinIncident(tx, org_id, candidate, of_incident, now);
  return new Set(Array.from(subjects.keys(), ({ id }) => id));
}

const newIncident = (id: string, rule: RuleRow, { group_id, site_id, fleet_id }: DueRow, now: Date): IncidentRow => ({
  ...openIncident(now),
  id,
  rule_id: rule.id,
  title: rule.name,
  severity: rule.severity,
  group_id,
  site_id,
  fleet_id,
  member_count: 0,
  active_count: 0,
  assignee_id: null,
  created_at: now,
  updated_at: now,
});

interface Stepped {
  incidents: readonly IncidentRow[];
  joined: ReadonlySet<string>;
  now: Date;
}

async function stepAll(tx: Db, plane: Evaluating, org_id: string, { incidents, joined, now }: Stepped): Promise<void> {
  const moving = incidents.filter(({ id, status }) => status !== "resolved" || joined.has(id));
  const ids = moving.map(({ id }) => id);
  const counts = new Map((await countMembers(tx, org_id, ids)).map((count) => [count.incident_id, count]));
  const muted = ids.length === 0 ? new Set<string>() : await listMuted(tx, org_id, ids, now);
  const changed: IncidentRow[] = [];
  const queued: { incident: IncidentRow; kind: IncidentMessage }[] = [];
  const entries: { incident_id: string; kind: IncidentEntryKind }[] = [];
  for (const before of moving) {
    const { active = 0, members = 0 } = counts.get(before.id) ?? {};
    const { incident, events, messages } = stepIncident(before, {
      now,
      joined: joined.has(before.id),
      active,
      muted: muted.has(before.id),
    });
    const next = { ...incident, active_count: active, member_count: members };
    if (JSON.stringify(next) !== JSON.stringify(before)) changed.push({ ...next, updated_at: now });
    entries.push(...events.map((kind) => ({ incident_id: before.id, kind })));
    queued.push(...messages.map((kind) => ({ incident: next, kind })));
  }
  if (changed.length > 0) await putIncidents(tx, org_id, changed);
  announceIncidents(tx, plane, org_id, changed);
  await writeEntries(tx, plane, org_id, entries, now);
  await queueMessages(tx, plane, org_id, queued, now);
}

/** Publishes that these incidents changed. */
export function announceIncidents(db: Db, plane: Pick<Plane, "bus">, org_id: string, incidents: readonly IncidentRow[]): void {
  announce(
    db,
    plane,
    org_id,
    incidents.map(({ id, status, site_id, fleet_id }) => ({
      kind: "incident",
      id,
      change: "updated",
      status,
      places: [{ site_id, fleet_id }],
    })),
  );
}

async function writeEntries(
  tx: Db,
  plane: Evaluating,
  org_id: string,
  entries: readonly { incident_id: string; kind: IncidentEntryKind }[],
  now: Date,
): Promise<void> {
  if (entries.length === 0) return;
  const rows = entries.map((entry) => ({ ...entry, id: plane.id(ID_PREFIXES.event), actor: SYSTEM, comment: null }));
  await insertIncidentEntries(tx, org_id, rows, now);
}
