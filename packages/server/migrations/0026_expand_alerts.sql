-- Alert rules, and the incidents that they open.
create table alert_rule (
  org_id text not null references org (id) on delete cascade,
  id text not null,
  name text not null,
  -- {"type": "robot_offline"}, with the parameters of the type.
  condition jsonb not null,
  for_seconds integer not null check (for_seconds between 0 and 604800),
  severity text not null check (severity in ('critical', 'warning', 'info')),
  -- The scope; all null or empty: the whole org.
  site_id text,
  fleet_id text,
  labels jsonb not null default '{}',
  disabled_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, id),
  unique (org_id, name)
);
alter table alert_rule enable row level security;
create policy tenant on alert_rule using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on alert_rule to pg_database_owner;

-- When the rules of an org are evaluated next. The node that locks the row evaluates them.
create table alert_evaluation (
  org_id text primary key references org (id) on delete cascade,
  next_at timestamptz not null
);
create index alert_evaluation_due on alert_evaluation (next_at);
alter table alert_evaluation enable row level security;
create policy tenant on alert_evaluation using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on alert_evaluation to pg_database_owner;

-- The robots and deployments for which a rule's condition is true now.
create table alert_match (
  org_id text not null,
  rule_id text not null,
  subject_id text not null,
  group_id text not null,
  site_id text not null,
  fleet_id text,
  since_at timestamptz not null,
  -- Null until the condition was true for the duration of the rule.
  incident_id text,
  primary key (org_id, rule_id, subject_id),
  foreign key (org_id, rule_id) references alert_rule (org_id, id) on delete cascade
);
create index alert_match_pending on alert_match (org_id, rule_id, since_at) where incident_id is null;
create index alert_match_incident on alert_match (org_id, incident_id) where incident_id is not null;
alter table alert_match enable row level security;
create policy tenant on alert_match using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on alert_match to pg_database_owner;

create table incident (
  org_id text not null references org (id) on delete cascade,
  id text not null,
  -- The rule may have been deleted, so its name and severity are copied.
  rule_id text not null,
  title text not null,
  severity text not null check (severity in ('critical', 'warning', 'info')),
  group_id text not null,
  site_id text not null,
  fleet_id text,
  status text not null check (status in ('open', 'acknowledged', 'resolved')),
  member_count integer not null,
  active_count integer not null,
  flap_count integer not null default 0,
  raised_at timestamptz not null,
  joined_at timestamptz not null,
  cleared_at timestamptz,
  notified_at timestamptz,
  acknowledged_at timestamptz,
  resolved_at timestamptz,
  assignee_id text,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, id)
);
create index incident_unresolved on incident (org_id, id) where status <> 'resolved';
create index incident_resolved on incident (org_id, resolved_at) where resolved_at is not null;
create index incident_status on incident (org_id, status, id);
alter table incident enable row level security;
create policy tenant on incident using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on incident to pg_database_owner;

create table incident_member (
  org_id text not null,
  incident_id text not null,
  subject_id text not null,
  joined_at timestamptz not null,
  left_at timestamptz,
  primary key (org_id, incident_id, subject_id),
  foreign key (org_id, incident_id) references incident (org_id, id) on delete cascade
);
create index incident_member_subject on incident_member (org_id, subject_id, incident_id);
alter table incident_member enable row level security;
create policy tenant on incident_member using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on incident_member to pg_database_owner;

create table incident_entry (
  org_id text not null,
  incident_id text not null,
  id text not null,
  at timestamptz not null,
  kind text not null,
  actor jsonb not null,
  comment text,
  primary key (org_id, incident_id, id),
  foreign key (org_id, incident_id) references incident (org_id, id) on delete cascade
);
alter table incident_entry enable row level security;
create policy tenant on incident_entry using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on incident_entry to pg_database_owner;
