-- Lists show either what somebody asked for, or what robots get by following their fleet: there may be thousands of the others.
create index deployment_requested on deployment (org_id, kind, id) where (target_kind <> 'robot' or created_by ->> 'type' is distinct from 'system');
create index deployment_following on deployment (org_id, kind, id) where (target_kind = 'robot' and created_by ->> 'type' = 'system');
