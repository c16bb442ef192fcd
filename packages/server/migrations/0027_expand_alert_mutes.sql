-- Times in which incidents send no messages.
create table alert_mute (
  org_id text not null references org (id) on delete cascade,
  id text not null,
  -- All null: every incident.
  site_id text,
  fleet_id text,
  rule_id text,
  from_at timestamptz not null,
  until_at timestamptz not null,
  reason text,
  created_by jsonb not null,
  created_at timestamptz not null,
  primary key (org_id, id)
);
create index alert_mute_until on alert_mute (org_id, until_at);
alter table alert_mute enable row level security;
create policy tenant on alert_mute using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on alert_mute to pg_database_owner;
