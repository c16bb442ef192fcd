-- On whose authority a deployment runs and an enrollment key enrolls: {user_id, token_id} of a person, {token_id} of a token of
-- the org, {fleet_id} of a fleet that a robot follows. Null: as created_by says.
alter table deployment add column authority jsonb;
alter table enrollment_key add column authority jsonb;

-- What changed so that open deployments may have lost their authority: a user, a token or a robot. Taken by a background loop.
create table authority_change (
  org_id text not null references org(id) on delete cascade,
  kind text not null check (kind in ('user', 'token', 'robot')),
  subject_id text not null,
  changed_at timestamptz not null,
  primary key (org_id, kind, subject_id)
);
alter table authority_change enable row level security;
create policy tenant on authority_change using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on authority_change to pg_database_owner;
