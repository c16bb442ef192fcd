-- Entries and sessions by actor. The indexes on actor ->> 'id' could not find them: the operator is not leakproof, so row-level security
-- tests each row of the org first. PostgreSQL writes a generated column itself, also for servers of the previous version.
alter table audit_entry add column actor_id text generated always as (actor ->> 'id') stored;
drop index audit_entry_actor;
create index audit_entry_actor on audit_entry (org_id, actor_id, id);

alter table shell_session add column actor_id text generated always as (actor ->> 'id') stored;
drop index shell_session_actor;
create index shell_session_actor on shell_session (org_id, actor_id, id);
