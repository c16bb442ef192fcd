import { SEVERITIES, type Severity } from "@roamfleet/protocol";
import type { Db } from "../../../kernel/db.ts";
import { bytea, int, json, list, nullable, row, sql, text, textOf, timestamptz } from "../../../kernel/sql.ts";
import type { JoinedIncident, MetricChecks } from "../rollout/gate-checks.ts";

const joinedRow = row({ id: text, title: text, severity: textOf<Severity>(), robots: int });

/**
 * Returns the first incident of at least this severity that updated robots of a wave joined while they ran the release, and after
 * `accepted_at`. A robot runs the release from the start of its verification.
 */
export const findJoinedIncident = (
  db: Db,
  { org_id, id, current_wave, gate_accepted_at }: { org_id: string; id: string; current_wave: number; gate_accepted_at: Date | null },
  severity: Severity,
  verify_seconds: number,
): Promise<JoinedIncident | undefined> =>
  db.maybe(sql(joinedRow)`
    -- reads tables of other features: incident, incident_member
    select i.id, i.title, i.severity, count(*)::int as robots
    from deployment_target t
      join incident_member m on m.org_id = t.org_id and m.subject_id = t.robot_id
        and m.joined_at >= t.updated_at - ${verify_seconds} * interval '1 second' and m.joined_at > coalesce(${gate_accepted_at}::timestamptz, '-infinity')
      join incident i on i.org_id = m.org_id and i.id = m.incident_id and i.severity = any(${list(severitiesFrom(severity))}::text[])
    where t.org_id = ${org_id} and t.deployment_id = ${id} and t.wave = ${current_wave} and t.status = 'applied'
    group by i.org_id, i.id order by min(m.joined_at), i.id limit 1`);

const evaluatedRow = row({ evaluated_at: nullable(timestamptz) });

/** Returns the time of the last evaluation of the org's alert rules; null: none yet. The incidents that it opened are visible. */
export const findEvaluatedAt = async (db: Db, org_id: string): Promise<Date | null> => {
  const found = await db.maybe(sql(evaluatedRow)`
    -- reads tables of other features: alert_evaluation
    select evaluated_at from alert_evaluation where org_id = ${org_id}`);
  return found?.evaluated_at ?? null;
};

/** Robots of a wave whose metrics are measured. */
const MEASURED_MAX = 100;

const robotRow = row({ robot_id: text });

/** Returns the updated robots of a wave whose metrics are measured: the first by id. */
export const listMeasuredRobots = (db: Db, org_id: string, deployment_id: string, wave: number) =>
  db.many(sql(robotRow)`
    select robot_id from deployment_target where org_id = ${org_id} and deployment_id = ${deployment_id} and wave = ${wave} and status = 'applied'
    order by robot_id limit ${MEASURED_MAX}`);

const chunkRow = row({ chunk: bytea });

/** Returns the robot's chunks that may have samples from `since` to before `until`. A chunk has samples of at most an hour. */
export const listChunks = (db: Db, org_id: string, robot_id: string, since: Date, until: Date) =>
  db.many(sql(chunkRow)`
    -- reads tables of other features: metric_chunk
    select chunk from metric_chunk
    where org_id = ${org_id} and robot_id = ${robot_id} and first_at >= ${since}::timestamptz - interval '1 hour' and first_at < ${until}
      and last_at >= ${since}`);

export const setMetricChecks = (db: Db, org_id: string, deployment_id: string, wave: number, checks: MetricChecks) =>
  db.run(sql`
    update deployment_wave set metric_checks = ${json(checks)} where org_id = ${org_id} and deployment_id = ${deployment_id} and wave = ${wave}`);

const severitiesFrom = (severity: Severity): Severity[] => SEVERITIES.slice(0, SEVERITIES.indexOf(severity) + 1);
