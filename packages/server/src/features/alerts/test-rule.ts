import type { AlertRuleTest } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict } from "../../kernel/fault.ts";
import { readPast } from "./store-past.ts";
import { SERVER_VERSION } from "./evaluate.ts";
import { matchesOf } from "./store-conditions.ts";
import type { RuleRow } from "./store-rules.ts";
import { countMatches, listMatchesNow } from "./store-tests.ts";

const DAY_MS = 86_400_000;
/** Days of history that a test searches, if they are stored. */
const PAST_DAYS = 7;

const historyStart = (now: Date, kept_days: number): Date => new Date(now.getTime() - Math.min(PAST_DAYS, kept_days || PAST_DAYS) * DAY_MS);

/** Returns what a rule would match now, whether it is stored or not. */
export async function testRule(
  db: Db,
  { clock, settings }: Pick<Plane, "clock" | "settings">,
  org_id: string,
  rule: RuleRow,
): Promise<AlertRuleTest> {
  const now = clock.now();
  const matches = currentMatches(org_id, rule, now);
  return {
    ...(await countMatches(db, org_id, rule, matches)),
    matches: await listMatchesNow(db, org_id, matches),
    past: await readPast(db, org_id, rule, { now, since: historyStart(now, settings.limits.timeline_retention_days) }),
  };
}

/** Throws 409 if an enabled rule matches all robots of its scope. It is probably a mistake, and its first incident would contain all of them. */
export async function refuseMatchingAll(db: Db, org_id: string, rule: RuleRow, now: Date): Promise<void> {
  if (rule.disabled_at !== null) return;
  const { match_count, scope_count } = await countMatches(db, org_id, rule, currentMatches(org_id, rule, now));
  if (match_count > 0 && match_count === scope_count)
    throw conflict(`the rule matches every robot of its scope now (${scope_count}); use force to accept it`);
}

const currentMatches = (org_id: string, rule: RuleRow, now: Date) =>
  matchesOf(rule.condition, rule, { org_id, now, server_version: SERVER_VERSION });
