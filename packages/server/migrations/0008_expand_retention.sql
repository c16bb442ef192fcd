-- Retention of entries, events, deployments and idempotency keys, and an index for each filter of the audit.

-- When retention deleted the deployment's events; null: they are there.
alter table deployment add column events_dropped_at timestamptz;
create index deployment_finished on deployment (finished_at, org_id, id) where finished_at is not null;
create index deployment_events_kept on deployment (finished_at, org_id, id) where finished_at is not null and events_dropped_at is null;

-- A key without an end lives as long as the deployment that its request created.
update idempotency set deployment_id = response::jsonb -> 'data' ->> 'id' where expires_at is null and deployment_id is null and response is not null;
create index idempotency_deployment on idempotency (org_id, deployment_id) where deployment_id is not null;

create index audit_entry_actor on audit_entry (org_id, (actor ->> 'id'), id);
create index audit_entry_token on audit_entry (org_id, token_id, id) where token_id is not null;
