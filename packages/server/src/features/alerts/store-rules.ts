import type { Severity } from "@roamfleet/protocol";
import type { AlertCondition } from "@roamfleet/protocol/routes";
import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { json, jsonb, nullable, row, type RowOf, sql, text, textOf, timestamptz, int } from "../../kernel/sql.ts";
import { MAX_ID, type Window } from "../../kernel/page.ts";
import { DEFAULT_RULES } from "./defaults.ts";

const ruleRow = row({
  id: text,
  name: text,
  condition: jsonb<AlertCondition>(),
  for_seconds: int,
  severity: textOf<Severity>(),
  site_id: nullable(text),
  fleet_id: nullable(text),
  labels: jsonb<Record<string, string>>(),
  disabled_at: nullable(timestamptz),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type RuleRow = RowOf<typeof ruleRow>;
const countRow = row({ count: int });

/** Maximum rules of an org. All are evaluated in one statement. */
export const RULES_MAX = 100;

/** Makes an org known to the evaluator, with the default rules. Does nothing if it is known already. */
export const insertDefaults = (db: Db, org_id: string, rules: readonly { id: string }[], now: Date): Promise<number> =>
  db.run(sql`
    with added as (
      insert into alert_evaluation (org_id, next_at) values (${org_id}, ${now}) on conflict (org_id) do nothing returning org_id)
    insert into alert_rule (org_id, id, name, condition, for_seconds, severity, created_at, updated_at)
    select added.org_id, r.id, r.name, r.condition, r.for_seconds, r.severity, ${now}, ${now}
    from added cross join jsonb_to_recordset(${json(rules.map(({ id }, i) => ({ id, ...DEFAULT_RULES[i] })))}::jsonb)
      as r (id text, name text, condition jsonb, for_seconds int, severity text)
    where added.org_id = ${org_id} on conflict do nothing`);

export const listEnabledRules = (db: Db, org_id: string): Promise<RuleRow[]> =>
  db.many(sql(ruleRow)`
    select ${ruleRow} from alert_rule where org_id = ${org_id} and disabled_at is null order by id limit ${RULES_MAX}`);

/** Returns the rules that the caller may see, newest first: those of the whole org, and those of its sites and fleets. */
export const listRules = (db: Db, caller: Caller, { after, limit }: Window): Promise<RuleRow[]> =>
  db.many(sql(ruleRow)`
    select ${ruleRow} from alert_rule where org_id = ${caller.org_id} and id < ${after ?? MAX_ID}
      and (site_id is null and fleet_id is null or (true ${visible(caller, "site_id", "fleet_id")}))
    order by id desc limit ${limit}`);

export const findRule = (db: Db, org_id: string, id: string): Promise<RuleRow | undefined> =>
  db.maybe(sql(ruleRow)`select ${ruleRow} from alert_rule where org_id = ${org_id} and id = ${id}`);

export const countRules = async (db: Db, org_id: string): Promise<number> =>
  (await db.one(sql(countRow)`select count(*)::int as count from alert_rule where org_id = ${org_id}`)).count;

/** Inserts or replaces a rule. */
export const putRule = (db: Db, org_id: string, rule: RuleRow): Promise<number> =>
  db.run(sql`
    insert into alert_rule (org_id, id, name, condition, for_seconds, severity, site_id, fleet_id, labels, disabled_at, created_at, updated_at)
    values (${org_id}, ${rule.id}, ${rule.name}, ${json(rule.condition)}, ${rule.for_seconds}, ${rule.severity}, ${rule.site_id}, ${rule.fleet_id},
      ${json(rule.labels)}, ${rule.disabled_at}, ${rule.created_at}, ${rule.updated_at})
    on conflict (org_id, id) do update set name = excluded.name, condition = excluded.condition, for_seconds = excluded.for_seconds,
      severity = excluded.severity, site_id = excluded.site_id, fleet_id = excluded.fleet_id, labels = excluded.labels,
      disabled_at = excluded.disabled_at, updated_at = excluded.updated_at`);

export const deleteRule = (db: Db, org_id: string, id: string): Promise<number> =>
  db.run(sql`delete from alert_rule where org_id = ${org_id} and id = ${id}`);

/** Waits until no evaluation of the org is running, and delays the next one until the transaction ends. */
export const lockEvaluation = (tx: Db, org_id: string): Promise<number> =>
  tx.run(sql`select from alert_evaluation where org_id = ${org_id} for update`);

const orgRow = row({ org_id: text });

/** Returns orgs that the evaluator does not know: those of an earlier version, or created by a server of that version. */
export const listUnknownOrgs = async (db: Db, limit: number): Promise<string[]> =>
  (
    await db.many(sql(orgRow)`
    -- reads tables of other features: org
    select o.id as org_id from org o where not exists (select from alert_evaluation e where e.org_id = o.id) order by o.id limit ${limit}`)
  ).map(({ org_id }) => org_id);

/** Returns active orgs whose rules must be evaluated, the longest overdue first. */
export const listDueOrgs = async (db: Db, now: Date, limit: number): Promise<string[]> =>
  (
    await db.many(sql(orgRow)`
    -- reads tables of other features: org
    select e.org_id from alert_evaluation e join org o on o.id = e.org_id
    where e.next_at <= ${now} and o.status = 'active' order by e.next_at limit ${limit}`)
  ).map(({ org_id }) => org_id);

/** Claims an org until the end of the transaction. Returns false if another node has claimed or evaluated it. */
export const claimEvaluation = async (tx: Db, org_id: string, now: Date, next_at: Date): Promise<boolean> =>
  (await tx.run(sql`
    update alert_evaluation set next_at = ${next_at}, evaluated_at = ${now} where org_id in (
      select org_id from alert_evaluation where org_id = ${org_id} and next_at <= ${now} for update skip locked)`)) > 0;

/** Sets when the org is evaluated next. */
export const planEvaluation = (db: Db, org_id: string, next_at: Date): Promise<number> =>
  db.run(sql`update alert_evaluation set next_at = ${next_at} where org_id = ${org_id}`);

/** Plans the next evaluation immediately. Until then, the evaluation that has begun does not count as one. */
export const continueEvaluation = (tx: Db, org_id: string, now: Date): Promise<number> =>
  tx.run(sql`update alert_evaluation set next_at = ${now}, evaluated_at = null where org_id = ${org_id}`);
