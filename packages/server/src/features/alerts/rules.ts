import { ID_PREFIXES, type AlertConditionType } from "@roamfleet/protocol";
import { type AlertCondition, type BodyOf, METRIC_MINUTES_MAX, type Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { mapUniqueViolation } from "../../engines/db/index.ts";
import type { Changed } from "../../kernel/audit.ts";
import { type Caller, requireReached, roleOn } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, conflict, found, notFound, printable } from "../../kernel/fault.ts";
import { announce } from "../events/index.ts";
import { setWatches, watchKey } from "../metrics/index.ts";
import { requirePlace } from "./place.ts";
import { watchedMetric } from "./store-conditions.ts";
import { endMatches } from "./store-incidents.ts";
import { countRules, deleteRule, findRule, listEnabledRules, lockEvaluation, putRule, RULES_MAX, type RuleRow } from "./store-rules.ts";
import { refuseMatchingAll } from "./test-rule.ts";

type NewRule = BodyOf<Routes["createAlertRule"]>;
type RuleChange = BodyOf<Routes["updateAlertRule"]>;
type Changing = Pick<Plane, "clock" | "id" | "bus">;

/** The parameters of each type of condition. */
const PARAMETERS: Record<AlertConditionType, readonly (keyof AlertCondition)[]> = {
  robot_offline: [],
  check_failing: ["check"],
  disk_above: ["percent"],
  config_drift: [],
  agent_outdated: ["below"],
  metric_above: ["metric", "metric_labels", "threshold", "minutes"],
  metric_below: ["metric", "metric_labels", "threshold", "minutes"],
  metric_rate_above: ["metric", "metric_labels", "threshold", "minutes"],
  metric_absent: ["metric", "metric_labels", "minutes"],
  deployment_failed: [],
  deployment_paused: [],
};

/** Returns the rule that a request creates. */
export function newRule(plane: Changing, { name, condition, severity }: NewRule): RuleRow {
  const at = plane.clock.now();
  const scope = { site_id: null, fleet_id: null, labels: {} };
  return {
    id: plane.id(ID_PREFIXES.alert_rule),
    name,
    condition,
    severity,
    for_seconds: 0,
    ...scope,
    disabled_at: null,
    created_at: at,
    updated_at: at,
  };
}

/** Returns the rule with the changes of a request, without storing it. Throws if the caller may not have such a rule. */
export async function withChanges(db: Db, plane: Changing, caller: Caller, rule: RuleRow, body: RuleChange): Promise<RuleRow> {
  const { site_id, fleet_id, whole_org = false, enabled } = body;
  const is_placed = site_id !== undefined || fleet_id !== undefined;
  if (is_placed && whole_org) throw badRequest("whole_org excludes site_id and fleet_id");
  const now = plane.clock.now();
  const changed: RuleRow = {
    ...rule,
    name: body.name ?? rule.name,
    condition: body.condition ?? rule.condition,
    severity: body.severity ?? rule.severity,
    for_seconds: body.for_seconds ?? rule.for_seconds,
    labels: body.labels ?? rule.labels,
    ...(whole_org ? { site_id: null, fleet_id: null } : {}),
    disabled_at: enabled === undefined ? rule.disabled_at : enabled ? null : (rule.disabled_at ?? now),
    updated_at: now,
  };
  checkCondition(changed);
  if (is_placed) Object.assign(changed, await requirePlace(db, caller.org_id, body));
  requireReached(roleOn(caller, changed) ?? "viewer", "operator", () => notFound("alert rule", rule.id));
  return changed;
}

function checkCondition({ condition, labels }: RuleRow): void {
  const { type } = condition;
  const allowed: readonly string[] = ["type", ...PARAMETERS[type]];
  const strange = Object.keys(condition).find((name) => !allowed.includes(name));
  if (strange !== undefined) throw badRequest(`the condition ${type} has no parameter ${strange}`);
  if (type.startsWith("metric")) checkMetric(condition);
  if (type.startsWith("deployment") && Object.keys(labels).length > 0)
    throw badRequest(`the condition ${type} cannot be limited by labels`);
}

function checkMetric({ type, metric, threshold, minutes = 1 }: AlertCondition): void {
  if (metric === undefined) throw badRequest(`the condition ${type} needs metric`);
  if (type === "metric_absent") return;
  if (threshold === undefined) throw badRequest(`the condition ${type} needs threshold`);
  if (minutes > METRIC_MINUTES_MAX) throw badRequest(`the condition ${type} accepts at most ${METRIC_MINUTES_MAX} minutes`);
}

/** Returns a rule, or throws 404. */
export const readRule = async (db: Db, org_id: string, id: string): Promise<RuleRow> =>
  found(await findRule(db, org_id, id), "alert rule", id);

export async function createRule(db: Db, plane: Changing, caller: Caller, body: NewRule): Promise<RuleRow> {
  const { org_id } = caller;
  return await db.transaction(async (tx) => {
    await lockEvaluation(tx, org_id);
    const rule = await withChanges(tx, plane, caller, newRule(plane, body), body);
    if ((await countRules(tx, org_id)) >= RULES_MAX) throw conflict(`an org may have ${RULES_MAX} alert rules; delete one first`);
    if (body.force !== true) await refuseMatchingAll(tx, org_id, rule, plane.clock.now());
    await store(tx, plane, org_id, rule, "created");
    return rule;
  });
}

/** Changes a rule. If its condition or scope changes, its matches end, and the durations of current matches start again. */
export async function changeRule(db: Db, plane: Changing, caller: Caller, id: string, body: RuleChange): Promise<Changed<RuleRow>> {
  const { org_id } = caller;
  return await db.transaction(async (tx) => {
    await lockEvaluation(tx, org_id);
    const before = await readRule(tx, org_id, id);
    const rule = await withChanges(tx, plane, caller, before, body);
    const changed = matchedBy(rule) !== matchedBy(before);
    const enabled = before.disabled_at !== null && rule.disabled_at === null;
    if (body.force !== true && (changed || enabled)) await refuseMatchingAll(tx, org_id, rule, plane.clock.now());
    if (changed) await endMatches(tx, org_id, id, plane.clock.now());
    await store(tx, plane, org_id, rule, "updated");
    return { before, after: rule };
  });
}

/** Deletes a rule and returns it. Its matches end, and later evaluations resolve its incidents. */
export async function removeRule(db: Db, plane: Changing, { org_id }: Caller, id: string): Promise<RuleRow> {
  return await db.transaction(async (tx) => {
    await lockEvaluation(tx, org_id);
    const rule = await readRule(tx, org_id, id);
    await endMatches(tx, org_id, id, plane.clock.now());
    await deleteRule(tx, org_id, id);
    await watchMetrics(tx, plane, org_id);
    const { site_id, fleet_id } = rule;
    announce(tx, plane, org_id, { kind: "alert_rule", id, change: "removed", places: [{ site_id, fleet_id }] });
    return rule;
  });
}

const matchedBy = ({ condition, site_id, fleet_id, labels }: RuleRow): string =>
  JSON.stringify([Object.entries(condition).toSorted(), site_id, fleet_id, Object.entries(labels).toSorted()]);

async function store(tx: Db, plane: Changing, org_id: string, rule: RuleRow, change: "created" | "updated"): Promise<void> {
  await mapUniqueViolation(putRule(tx, org_id, rule), () => conflict(`an alert rule with the name ${printable(rule.name)} exists already`));
  await watchMetrics(tx, plane, org_id);
  announce(tx, plane, org_id, { kind: "alert_rule", id: rule.id, change });
}

/** Sets for which metrics values are computed: those of enabled rules. The caller has locked the evaluation of the org. */
async function watchMetrics(tx: Db, { clock }: Changing, org_id: string): Promise<void> {
  const watched = (await listEnabledRules(tx, org_id)).flatMap(({ condition }) => watchedMetric(condition) ?? []);
  const watches = new Map(watched.map((one) => [watchKey(one), { ...one, key: watchKey(one), labels: { ...one.labels } }]));
  await setWatches(tx, org_id, [...watches.values()], clock.now());
}
