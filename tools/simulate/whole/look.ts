import type { Db } from "../../../packages/server/src/kernel/db.ts";
import { jsonb, row, sql } from "../../../packages/server/src/kernel/sql.ts";
import type { View } from "../server.ts";

const viewRow = row({ view: jsonb<View>() });

/** Reads all data of an org that the rules check, in one snapshot. */
export const look = async (db: Db, org_id: string): Promise<View> =>
  (
    await db.one(sql(viewRow)`
      select jsonb_build_object(
        'deployments', coalesce((select jsonb_agg(jsonb_build_object(
            'id', d.id, 'target_kind', d.target_kind, 'status', d.status, 'reason', d.reason, 'whole', d.fan_out_done_at is not null,
            'counts', jsonb_build_object('total', d.count_total, 'pending', d.count_pending, 'queued', d.count_queued, 'active', d.count_active,
              'applied', d.count_applied, 'failed', d.count_failed, 'rolled_back', d.count_rolled_back, 'cancelled', d.count_cancelled),
            'cancel_requested', d.cancel_requested_at is not null, 'stopped', d.stop_requested_at is not null,
            'rollback_requested', d.rollback_requested_at is not null,
            'scheduled_at', floor(extract(epoch from d.scheduled_at) * 1000), 'expires_at', floor(extract(epoch from d.expires_at) * 1000),
            'wave', d.current_wave, 'waves', d.wave_count, 'count_dispatched', d.count_dispatched, 'rollout', d.rollout,
            'told', e.told, 'event_count', e.event_count, 'last_event_seq', d.event_seq) order by d.id)
          from deployment d cross join lateral (
            select coalesce(jsonb_agg(status order by seq) filter (where target_status is null and kind <> 'deployment.note'), '[]') as told, count(*) as event_count
            from deployment_event e where e.org_id = d.org_id and e.deployment_id = d.id) e
          where d.org_id = ${org_id}), '[]'),
        'targets', coalesce((select jsonb_agg(jsonb_build_object(
            'id', t.id, 'deployment_id', t.deployment_id, 'robot_id', t.robot_id, 'app', t.subject, 'order_number', (select d.order_number from deployment d where d.org_id = t.org_id and d.id = t.deployment_id), 'release_id', t.release_id,
            'previous_release_id', t.previous_release_id, 'status', t.status, 'reason', t.reason, 'attempt', t.attempt, 'wave', t.wave,
            'deadline_at', floor(extract(epoch from t.deadline_at) * 1000), 'reverting', t.reverting,
            'dispatches', (select count(*) from deployment_event e where e.org_id = t.org_id and e.deployment_id = t.deployment_id
              and e.robot_id = t.robot_id and e.kind = 'target.dispatched')) order by t.id)
          from deployment_target t where t.org_id = ${org_id}), '[]'),
        'robots', coalesce((select jsonb_agg(jsonb_build_object(
            'id', r.id, 'removed', r.decommissioned_at is not null, 'online', r.node_id is not null, 'acked_seq', coalesce(s.outbox_seq, 0),
            'apps', coalesce((select jsonb_agg(jsonb_build_object('app', a.app, 'current_release_id', a.current_release_id,
                'desired_release_id', a.desired_release_id, 'target_id', a.target_id))
              from robot_app a where a.org_id = r.org_id and a.robot_id = r.id), '[]')) order by r.id)
          from robot r left join robot_desired s on s.org_id = r.org_id and s.robot_id = r.id where r.org_id = ${org_id}), '[]')) as view`)
  ).view;
