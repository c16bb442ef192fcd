-- The whole schema after all migrations, for reading; the migrations create it.
-- Written by dumpSchema. A test compares this file with a migrated database; with UPDATE_SCHEMA=1 it rewrites the file.

create sequence order_number;
grant usage on sequence order_number to pg_database_owner;

CREATE OR REPLACE FUNCTION public.delete_unknown_robot()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  delete from robot_unknown where org_id = new.org_id and state = tg_argv[0] and robot_id = new.robot_id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.delete_unknown_robots()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  delete from robot_unknown u using deleted d where u.org_id = d.org_id and u.state in ('health', 'release', 'config') and u.robot_id = d.id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.insert_unknown_robot()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform from robot_desired where org_id = old.org_id and robot_id = old.robot_id for update;
  execute format('insert into robot_unknown (org_id, state, robot_id)
    select r.org_id, $1, r.id from robot r where r.org_id = $2 and r.id = $3
      and not exists (select from %I k where k.org_id = r.org_id and k.robot_id = r.id and k.state <> ''unknown'')
    on conflict do nothing', tg_table_name) using tg_argv[0], old.org_id, old.robot_id;
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.insert_unknown_robots()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into robot_unknown (org_id, state, robot_id)
    select r.org_id, s.state, r.id from inserted r cross join (values ('health'), ('release'), ('config')) s (state);
  return null;
end $function$;

CREATE OR REPLACE FUNCTION public.write_robot_labels()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'UPDATE' then
    delete from robot_label where org_id = new.org_id and robot_id = new.id;
  end if;
  insert into robot_label (org_id, key, value, robot_id)
    select new.org_id, l.key, l.value, new.id from jsonb_each_text(new.labels) l;
  return null;
end $function$;

create table alert_channel (
  org_id text not null,
  id text not null,
  name text not null,
  kind text not null,
  destination text not null,
  sealed text not null,
  routes jsonb not null default '[]'::jsonb,
  disabled_at timestamp with time zone,
  due_at timestamp with time zone,
  leased_until timestamp with time zone,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint alert_channel_pkey PRIMARY KEY (org_id, id),
  constraint alert_channel_org_id_name_key UNIQUE (org_id, name),
  constraint alert_channel_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint alert_channel_kind_check CHECK (kind = ANY (ARRAY['webhook'::text, 'slack'::text, 'pagerduty'::text, 'email'::text]))
);
CREATE INDEX alert_channel_due ON alert_channel USING btree (due_at) WHERE due_at IS NOT NULL;
alter table alert_channel enable row level security;
create policy tenant on alert_channel using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on alert_channel to pg_database_owner;

create table alert_delivery (
  org_id text not null,
  id text not null,
  channel_id text not null,
  incident_id text,
  kind text not null,
  message jsonb not null,
  status text not null,
  attempts integer not null default 0,
  detail text,
  next_attempt_at timestamp with time zone,
  give_up_at timestamp with time zone not null,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint alert_delivery_pkey PRIMARY KEY (org_id, id),
  constraint alert_delivery_org_id_channel_id_fkey FOREIGN KEY (org_id, channel_id) REFERENCES alert_channel(org_id, id) ON DELETE CASCADE,
  constraint alert_delivery_kind_check CHECK (kind = ANY (ARRAY['opened'::text, 'resolved'::text, 'test'::text])),
  constraint alert_delivery_status_check CHECK (status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text]))
);
CREATE INDEX alert_delivery_channel ON alert_delivery USING btree (org_id, channel_id, id);
CREATE INDEX alert_delivery_incident ON alert_delivery USING btree (org_id, incident_id) WHERE incident_id IS NOT NULL;
CREATE INDEX alert_delivery_pending ON alert_delivery USING btree (org_id, channel_id, next_attempt_at) WHERE status = 'pending'::text;
alter table alert_delivery enable row level security;
create policy tenant on alert_delivery using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on alert_delivery to pg_database_owner;

create table alert_evaluation (
  org_id text not null,
  next_at timestamp with time zone not null,
  evaluated_at timestamp with time zone,
  constraint alert_evaluation_pkey PRIMARY KEY (org_id),
  constraint alert_evaluation_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE
);
CREATE INDEX alert_evaluation_due ON alert_evaluation USING btree (next_at);
alter table alert_evaluation enable row level security;
create policy tenant on alert_evaluation using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on alert_evaluation to pg_database_owner;

create table alert_match (
  org_id text not null,
  rule_id text not null,
  subject_id text not null,
  group_id text not null,
  site_id text not null,
  fleet_id text,
  since_at timestamp with time zone not null,
  incident_id text,
  constraint alert_match_pkey PRIMARY KEY (org_id, rule_id, subject_id),
  constraint alert_match_org_id_rule_id_fkey FOREIGN KEY (org_id, rule_id) REFERENCES alert_rule(org_id, id) ON DELETE CASCADE
);
CREATE INDEX alert_match_incident ON alert_match USING btree (org_id, incident_id) WHERE incident_id IS NOT NULL;
CREATE INDEX alert_match_pending ON alert_match USING btree (org_id, rule_id, since_at) WHERE incident_id IS NULL;
alter table alert_match enable row level security;
create policy tenant on alert_match using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on alert_match to pg_database_owner;

create table alert_mute (
  org_id text not null,
  id text not null,
  site_id text,
  fleet_id text,
  rule_id text,
  from_at timestamp with time zone not null,
  until_at timestamp with time zone not null,
  reason text,
  created_by jsonb not null,
  created_at timestamp with time zone not null,
  constraint alert_mute_pkey PRIMARY KEY (org_id, id),
  constraint alert_mute_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE
);
CREATE INDEX alert_mute_until ON alert_mute USING btree (org_id, until_at);
alter table alert_mute enable row level security;
create policy tenant on alert_mute using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on alert_mute to pg_database_owner;

create table alert_rule (
  org_id text not null,
  id text not null,
  name text not null,
  condition jsonb not null,
  for_seconds integer not null,
  severity text not null,
  site_id text,
  fleet_id text,
  labels jsonb not null default '{}'::jsonb,
  disabled_at timestamp with time zone,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint alert_rule_pkey PRIMARY KEY (org_id, id),
  constraint alert_rule_org_id_name_key UNIQUE (org_id, name),
  constraint alert_rule_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint alert_rule_for_seconds_check CHECK (for_seconds >= 0 AND for_seconds <= 604800),
  constraint alert_rule_severity_check CHECK (severity = ANY (ARRAY['critical'::text, 'warning'::text, 'info'::text]))
);
alter table alert_rule enable row level security;
create policy tenant on alert_rule using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on alert_rule to pg_database_owner;

create table artifact (
  org_id text not null,
  sha256 text not null,
  size bigint not null,
  stored_at timestamp with time zone not null,
  unreferenced_at timestamp with time zone,
  constraint artifact_pkey PRIMARY KEY (org_id, sha256),
  constraint artifact_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint artifact_size_check CHECK (size >= 0)
);
CREATE INDEX artifact_unreferenced ON artifact USING btree (unreferenced_at) WHERE unreferenced_at IS NOT NULL;
alter table artifact enable row level security;
create policy tenant on artifact using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on artifact to pg_database_owner;

create table artifact_layer (
  org_id text not null,
  artifact_sha256 text not null,
  platform text not null,
  position integer not null,
  sha256 text not null,
  size bigint not null,
  start bigint not null,
  diff_id text,
  constraint artifact_layer_pkey PRIMARY KEY (org_id, artifact_sha256, platform, "position"),
  constraint artifact_layer_org_id_artifact_sha256_fkey FOREIGN KEY (org_id, artifact_sha256) REFERENCES artifact(org_id, sha256) ON DELETE CASCADE,
  constraint artifact_layer_check CHECK ((diff_id IS NULL) = ("position" = 0)),
  constraint artifact_layer_position_check CHECK ("position" >= 0),
  constraint artifact_layer_size_check CHECK (size >= 0),
  constraint artifact_layer_start_check CHECK (start >= 0)
);
CREATE INDEX artifact_layer_blob ON artifact_layer USING btree (org_id, sha256);
alter table artifact_layer enable row level security;
create policy tenant on artifact_layer using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on artifact_layer to pg_database_owner;

create table artifact_upload (
  org_id text not null,
  release_id text not null,
  size bigint not null,
  created_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  holder text,
  holder_node text,
  holder_epoch bigint,
  holder_beat bigint not null default 0,
  constraint artifact_upload_pkey PRIMARY KEY (org_id, release_id),
  constraint artifact_upload_org_id_release_id_fkey FOREIGN KEY (org_id, release_id) REFERENCES release(org_id, id) ON DELETE CASCADE,
  constraint artifact_upload_size_check CHECK (size >= 0)
);
CREATE INDEX artifact_upload_expires ON artifact_upload USING btree (expires_at);
alter table artifact_upload enable row level security;
create policy tenant on artifact_upload using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on artifact_upload to pg_database_owner;

create table audit_entry (
  org_id text not null,
  id text not null,
  at timestamp with time zone not null,
  actor jsonb not null,
  token_id text,
  action text not null,
  method text not null,
  path text not null,
  object_id text,
  status integer,
  error text,
  ip text not null,
  user_agent text,
  request_id text not null,
  data jsonb not null default '{}'::jsonb,
  actor_id text default actor ->> 'id'::text,
  constraint audit_entry_pkey PRIMARY KEY (org_id, id)
);
CREATE INDEX audit_entry_action ON audit_entry USING btree (org_id, action, id);
CREATE INDEX audit_entry_actor ON audit_entry USING btree (org_id, actor_id, id);
CREATE INDEX audit_entry_changes ON audit_entry USING btree (org_id, id) WHERE method <> 'GET'::text OR ((data ->> 'stream'::text) = ANY (ARRAY['shell'::text, 'forward'::text, 'files'::text]));
CREATE INDEX audit_entry_object ON audit_entry USING btree (org_id, object_id, id) WHERE object_id IS NOT NULL;
CREATE INDEX audit_entry_refused ON audit_entry USING btree (org_id, id) WHERE error IS NOT NULL;
CREATE INDEX audit_entry_token ON audit_entry USING btree (org_id, token_id, id) WHERE token_id IS NOT NULL;
alter table audit_entry enable row level security;
create policy tenant on audit_entry using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on audit_entry to pg_database_owner;

create table authority_change (
  org_id text not null,
  kind text not null,
  subject_id text not null,
  changed_at timestamp with time zone not null,
  constraint authority_change_pkey PRIMARY KEY (org_id, kind, subject_id),
  constraint authority_change_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint authority_change_kind_check CHECK (kind = ANY (ARRAY['user'::text, 'token'::text, 'robot'::text, 'fleet'::text]))
);
alter table authority_change enable row level security;
create policy tenant on authority_change using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on authority_change to pg_database_owner;

create table config_entry (
  org_id text not null,
  id text not null,
  namespace text not null,
  key text not null,
  scope text not null,
  scope_id text not null default ''::text,
  value jsonb not null,
  sealed text,
  version integer not null,
  updated_by text,
  removed_at timestamp with time zone,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint config_entry_pkey PRIMARY KEY (org_id, id),
  constraint config_entry_org_id_namespace_scope_scope_id_key_key UNIQUE (org_id, namespace, scope, scope_id, key),
  constraint config_entry_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint config_entry_check CHECK (sealed IS NULL OR value = 'null'::jsonb),
  constraint config_entry_scope_check CHECK (scope = ANY (ARRAY['org'::text, 'site'::text, 'fleet'::text, 'robot'::text]))
);
alter table config_entry enable row level security;
create policy tenant on config_entry using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on config_entry to pg_database_owner;

create table config_namespace (
  org_id text not null,
  namespace text not null,
  value_schema jsonb,
  schema_version integer not null default 0,
  schema_updated_by jsonb,
  schema_updated_at timestamp with time zone,
  constraint config_namespace_pkey PRIMARY KEY (org_id, namespace),
  constraint config_namespace_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE
);
alter table config_namespace enable row level security;
create policy tenant on config_namespace using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on config_namespace to pg_database_owner;

create table config_version (
  org_id text not null,
  config_id text not null,
  version integer not null,
  change text not null,
  value jsonb not null,
  sealed text,
  rollback_of integer,
  actor jsonb not null,
  at timestamp with time zone not null,
  order_number bigint default nextval('order_number'::regclass),
  constraint config_version_pkey PRIMARY KEY (org_id, config_id, version),
  constraint config_version_org_id_config_id_fkey FOREIGN KEY (org_id, config_id) REFERENCES config_entry(org_id, id) ON DELETE CASCADE,
  constraint config_version_change_check CHECK (change = ANY (ARRAY['set'::text, 'removed'::text, 'rolled_back'::text])),
  constraint config_version_check CHECK (sealed IS NULL OR value = 'null'::jsonb)
);
alter table config_version enable row level security;
create policy tenant on config_version using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on config_version to pg_database_owner;

create table credential (
  id text not null,
  hash bytea not null,
  previous_hash bytea,
  previous_until timestamp with time zone,
  kind text not null,
  org_id text not null,
  user_id text,
  every_org boolean not null default false,
  role text not null,
  scopes jsonb not null default '[]'::jsonb,
  label text,
  prefix text not null,
  expires_at timestamp with time zone,
  last_used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  created_by jsonb,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint credential_pkey PRIMARY KEY (id),
  constraint credential_hash_key UNIQUE (hash),
  constraint credential_previous_hash_key UNIQUE (previous_hash),
  constraint credential_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint credential_user_id_fkey FOREIGN KEY (user_id) REFERENCES user_account(id) ON DELETE CASCADE,
  constraint credential_kind_check CHECK (kind = ANY (ARRAY['org'::text, 'user'::text])),
  constraint credential_role_check CHECK (role = ANY (ARRAY['viewer'::text, 'operator'::text, 'admin'::text]))
);
CREATE INDEX credential_org ON credential USING btree (org_id, id);
CREATE INDEX credential_user ON credential USING btree (user_id) WHERE user_id IS NOT NULL;
alter table credential enable row level security;
create policy tenant on credential using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on credential to pg_database_owner;

create table deployment (
  org_id text not null,
  id text not null,
  kind text not null,
  target_kind text not null,
  robot_id text,
  fleet_id text,
  release_id text,
  app text,
  namespace text,
  revision text,
  rollout jsonb not null default '{}'::jsonb,
  scheduled_at timestamp with time zone,
  status text not null,
  reason text,
  fan_out_at timestamp with time zone,
  fan_out_done_at timestamp with time zone,
  fan_out_cursor text,
  count_total integer not null default 0,
  count_pending integer not null default 0,
  count_queued integer not null default 0,
  count_active integer not null default 0,
  count_applied integer not null default 0,
  count_failed integer not null default 0,
  count_rolled_back integer not null default 0,
  count_cancelled integer not null default 0,
  reason_counts jsonb not null default '{}'::jsonb,
  event_seq bigint not null default 0,
  count_dispatched integer not null default 0,
  wave_count integer not null default 1,
  current_wave integer not null default 0,
  wave_passed_at timestamp with time zone,
  promoted_wave integer not null default '-1'::integer,
  wave_to_assign integer,
  step_at timestamp with time zone,
  failures_accepted integer not null default 0,
  cancel_requested_at timestamp with time zone,
  cancel_mode text,
  stop_requested_at timestamp with time zone,
  rollback_requested_at timestamp with time zone,
  paused_at timestamp with time zone,
  expires_at timestamp with time zone,
  retry_of text,
  rollback_of text,
  created_by jsonb not null,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  authority jsonb,
  order_number bigint not null default nextval('order_number'::regclass),
  events_dropped_at timestamp with time zone,
  gate_accepted_at timestamp with time zone,
  target_selector jsonb,
  fan_out_robots text[],
  constraint deployment_pkey PRIMARY KEY (org_id, id),
  constraint deployment_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint deployment_cancel_mode_check CHECK (cancel_mode = ANY (ARRAY['finish'::text, 'rollback'::text])),
  constraint deployment_kind_check CHECK (kind = ANY (ARRAY['release'::text, 'config'::text])),
  constraint deployment_status_check CHECK (status = ANY (ARRAY['scheduled'::text, 'queued'::text, 'in_progress'::text, 'paused'::text, 'rolling_back'::text, 'cancelling'::text, 'applied'::text, 'failed'::text, 'rolled_back'::text, 'cancelled'::text])),
  constraint deployment_target_kind_check CHECK (target_kind = ANY (ARRAY['robot'::text, 'fleet'::text, 'selection'::text])) NOT VALID
);
CREATE INDEX deployment_called_off ON deployment USING btree (org_id, id) WHERE finished_at IS NULL AND (cancel_requested_at IS NOT NULL OR rollback_requested_at IS NOT NULL);
CREATE INDEX deployment_events_kept ON deployment USING btree (finished_at, org_id, id) WHERE finished_at IS NOT NULL AND events_dropped_at IS NULL;
CREATE INDEX deployment_fan_out ON deployment USING btree (fan_out_at) WHERE fan_out_at IS NOT NULL AND fan_out_done_at IS NULL AND finished_at IS NULL;
CREATE INDEX deployment_finished ON deployment USING btree (finished_at, org_id, id) WHERE finished_at IS NOT NULL;
CREATE INDEX deployment_finished_of_org ON deployment USING btree (org_id, finished_at) WHERE finished_at IS NOT NULL AND (target_kind <> 'robot'::text OR (created_by ->> 'type'::text) IS DISTINCT FROM 'system'::text);
CREATE INDEX deployment_fleet ON deployment USING btree (org_id, fleet_id, id) WHERE fleet_id IS NOT NULL;
CREATE INDEX deployment_following ON deployment USING btree (org_id, kind, id) WHERE target_kind = 'robot'::text AND (created_by ->> 'type'::text) = 'system'::text;
CREATE INDEX deployment_kind ON deployment USING btree (org_id, kind, id);
CREATE INDEX deployment_open ON deployment USING btree (org_id, id) WHERE finished_at IS NULL;
CREATE INDEX deployment_open_expiry ON deployment USING btree (expires_at) WHERE finished_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX deployment_release ON deployment USING btree (org_id, release_id, id) WHERE release_id IS NOT NULL;
CREATE INDEX deployment_requested ON deployment USING btree (org_id, kind, id) WHERE target_kind <> 'robot'::text OR (created_by ->> 'type'::text) IS DISTINCT FROM 'system'::text;
CREATE INDEX deployment_robot ON deployment USING btree (org_id, robot_id, id) WHERE robot_id IS NOT NULL;
CREATE INDEX deployment_selection ON deployment USING btree (org_id, kind, id) WHERE target_kind = 'selection'::text;
CREATE INDEX deployment_status ON deployment USING btree (org_id, kind, status, id);
CREATE INDEX deployment_step ON deployment USING btree (step_at) WHERE finished_at IS NULL AND step_at IS NOT NULL;
alter table deployment enable row level security;
create policy tenant on deployment using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on deployment to pg_database_owner;

create table deployment_due (
  org_id text not null,
  id text not null,
  due_at timestamp with time zone not null,
  not_before_at timestamp with time zone,
  constraint deployment_due_pkey PRIMARY KEY (org_id, id),
  constraint deployment_due_org_id_id_fkey FOREIGN KEY (org_id, id) REFERENCES deployment(org_id, id) ON DELETE CASCADE
);
CREATE INDEX deployment_due_next ON deployment_due USING btree (COALESCE(not_before_at, due_at));
CREATE INDEX deployment_due_of_org ON deployment_due USING btree (org_id, COALESCE(not_before_at, due_at));
alter table deployment_due enable row level security;
create policy tenant on deployment_due using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on deployment_due to pg_database_owner;

create table deployment_event (
  org_id text not null,
  deployment_id text not null,
  seq bigint not null,
  id text not null,
  at timestamp with time zone not null,
  kind text not null,
  status text not null,
  target_status text,
  robot_id text,
  reason text,
  message text not null,
  actor jsonb not null,
  data jsonb not null default '{}'::jsonb,
  constraint deployment_event_pkey PRIMARY KEY (org_id, deployment_id, seq)
);
CREATE INDEX deployment_event_own ON deployment_event USING btree (org_id, deployment_id, seq) WHERE robot_id IS NULL;
CREATE INDEX deployment_event_robot ON deployment_event USING btree (org_id, deployment_id, robot_id, seq) WHERE robot_id IS NOT NULL;
alter table deployment_event enable row level security;
create policy tenant on deployment_event using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on deployment_event to pg_database_owner;

create table deployment_target (
  org_id text not null,
  deployment_id text not null,
  id text not null,
  kind text not null,
  robot_id text not null,
  subject text not null,
  release_id text,
  wave integer not null default 0,
  status text not null,
  reason text,
  attempt integer not null default 0,
  waiting_for text,
  progress jsonb,
  previous_release_id text,
  dispatch_generation bigint,
  deadline_at timestamp with time zone,
  not_before_at timestamp with time zone,
  reverting boolean not null default false,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint deployment_target_pkey PRIMARY KEY (org_id, deployment_id, id),
  constraint deployment_target_org_id_deployment_id_robot_id_subject_key UNIQUE (org_id, deployment_id, robot_id, subject),
  constraint deployment_target_org_id_deployment_id_fkey FOREIGN KEY (org_id, deployment_id) REFERENCES deployment(org_id, id) ON DELETE CASCADE,
  constraint deployment_target_kind_check1 CHECK (kind = ANY (ARRAY['release'::text, 'config'::text])),
  constraint deployment_target_status_check CHECK (status = ANY (ARRAY['pending'::text, 'queued'::text, 'dispatched'::text, 'downloading'::text, 'staged'::text, 'installing'::text, 'verifying'::text, 'rolling_back'::text, 'applied'::text, 'failed'::text, 'rolled_back'::text, 'cancelled'::text])),
  constraint deployment_target_waiting_for_check CHECK (waiting_for = ANY (ARRAY['robot_online'::text, 'slot'::text, 'window'::text, 'artifact'::text, 'previous_deployment'::text, 'gate'::text, 'robot'::text, 'approval'::text])) NOT VALID
);
CREATE INDEX deployment_target_claim ON deployment_target USING btree (deployment_id, org_id, COALESCE(not_before_at, '-infinity'::timestamp with time zone), id) WHERE status = 'queued'::text AND waiting_for IS NULL;
CREATE INDEX deployment_target_claim_of_org ON deployment_target USING btree (org_id, deployment_id, COALESCE(not_before_at, '-infinity'::timestamp with time zone), id) WHERE status = 'queued'::text AND waiting_for IS NULL;
CREATE INDEX deployment_target_deadline ON deployment_target USING btree (deadline_at) WHERE deadline_at IS NOT NULL;
CREATE INDEX deployment_target_ended_badly ON deployment_target USING btree (org_id, deployment_id, status, id) WHERE status = ANY (ARRAY['failed'::text, 'rolled_back'::text, 'cancelled'::text]);
CREATE INDEX deployment_target_held ON deployment_target USING btree (org_id, deployment_id, waiting_for, wave, id) WHERE waiting_for = ANY (ARRAY['slot'::text, 'gate'::text]);
CREATE UNIQUE INDEX deployment_target_id ON deployment_target USING btree (org_id, id);
CREATE INDEX deployment_target_pending ON deployment_target USING btree (org_id, deployment_id, wave, robot_id) WHERE status = 'pending'::text;
CREATE INDEX deployment_target_robot_open ON deployment_target USING btree (org_id, robot_id, subject) WHERE status <> ALL (ARRAY['applied'::text, 'failed'::text, 'rolled_back'::text, 'cancelled'::text]);
CREATE INDEX deployment_target_waiting_release ON deployment_target USING btree (org_id, release_id) WHERE status = 'queued'::text AND waiting_for = 'artifact'::text;
alter table deployment_target enable row level security;
create policy tenant on deployment_target using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on deployment_target to pg_database_owner;

create table deployment_wave (
  org_id text not null,
  deployment_id text not null,
  wave integer not null,
  size integer not null default 0,
  opened_at timestamp with time zone,
  passed_at timestamp with time zone,
  count_pending integer not null default 0,
  count_queued integer not null default 0,
  count_active integer not null default 0,
  count_applied integer not null default 0,
  count_failed integer not null default 0,
  count_rolled_back integer not null default 0,
  count_cancelled integer not null default 0,
  metric_checks jsonb,
  constraint deployment_wave_pkey PRIMARY KEY (org_id, deployment_id, wave),
  constraint deployment_wave_org_id_deployment_id_fkey FOREIGN KEY (org_id, deployment_id) REFERENCES deployment(org_id, id) ON DELETE CASCADE
);
alter table deployment_wave enable row level security;
create policy tenant on deployment_wave using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on deployment_wave to pg_database_owner;

create table enrollment_key (
  org_id text not null,
  id text not null,
  hash bytea not null,
  label text,
  site_id text not null,
  fleet_id text not null,
  robot_id text,
  max_uses integer not null,
  uses integer not null default 0,
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  created_by jsonb,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  authority jsonb,
  trusted boolean not null default false,
  constraint enrollment_key_pkey PRIMARY KEY (org_id, id),
  constraint enrollment_key_hash_key UNIQUE (hash),
  constraint enrollment_key_org_id_fleet_id_fkey FOREIGN KEY (org_id, fleet_id) REFERENCES fleet(org_id, id) ON DELETE CASCADE,
  constraint enrollment_key_org_id_site_id_fkey FOREIGN KEY (org_id, site_id) REFERENCES site(org_id, id) ON DELETE CASCADE,
  constraint enrollment_key_check CHECK (max_uses = 0 OR uses <= max_uses),
  constraint enrollment_key_max_uses_check CHECK (max_uses >= 0)
);
alter table enrollment_key enable row level security;
create policy tenant on enrollment_key using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on enrollment_key to pg_database_owner;

create table fleet (
  org_id text not null,
  id text not null,
  site_id text not null,
  name text not null,
  desired jsonb not null default '{}'::jsonb,
  config_revision text,
  follow boolean not null default true,
  follow_cursor text,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint fleet_pkey PRIMARY KEY (org_id, id),
  constraint fleet_org_id_site_id_name_key UNIQUE (org_id, site_id, name),
  constraint fleet_org_id_site_id_fkey FOREIGN KEY (org_id, site_id) REFERENCES site(org_id, id)
);
CREATE INDEX fleet_to_follow ON fleet USING btree (org_id, id) WHERE follow_cursor IS NOT NULL;
alter table fleet enable row level security;
create policy tenant on fleet using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on fleet to pg_database_owner;

create table health_history (
  org_id text not null,
  robot_id text not null,
  first_at timestamp with time zone not null,
  last_at timestamp with time zone not null,
  points text not null,
  constraint health_history_pkey PRIMARY KEY (org_id, robot_id, first_at)
) partition by RANGE (first_at);
alter table health_history enable row level security;
create policy tenant on health_history using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on health_history to pg_database_owner;

create table health_snapshot (
  org_id text not null,
  robot_id text not null,
  received_at timestamp with time zone not null,
  snapshot jsonb not null,
  state text not null,
  failing jsonb not null default '[]'::jsonb,
  constraint health_snapshot_pkey PRIMARY KEY (org_id, robot_id),
  constraint health_snapshot_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE,
  constraint health_snapshot_state_check CHECK (state = ANY (ARRAY['ok'::text, 'failing'::text]))
);
CREATE INDEX health_snapshot_failing ON health_snapshot USING btree (org_id, robot_id) WHERE state = 'failing'::text;
alter table health_snapshot enable row level security;
create policy tenant on health_snapshot using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on health_snapshot to pg_database_owner;
CREATE TRIGGER health_known AFTER INSERT ON health_snapshot FOR EACH ROW EXECUTE FUNCTION delete_unknown_robot('health');
CREATE TRIGGER health_unknown AFTER DELETE ON health_snapshot FOR EACH ROW EXECUTE FUNCTION insert_unknown_robot('health');

create table idempotency (
  org_id text not null,
  method text not null,
  route text not null,
  key text not null,
  body_hash bytea not null,
  status integer,
  response text,
  location text,
  expires_at timestamp with time zone,
  deployment_id text,
  created_at timestamp with time zone not null,
  constraint idempotency_pkey PRIMARY KEY (org_id, method, route, key)
);
CREATE INDEX idempotency_deployment ON idempotency USING btree (org_id, deployment_id) WHERE deployment_id IS NOT NULL;
CREATE INDEX idempotency_expiry ON idempotency USING btree (expires_at) WHERE expires_at IS NOT NULL;
alter table idempotency enable row level security;
create policy tenant on idempotency using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on idempotency to pg_database_owner;

create table incident (
  org_id text not null,
  id text not null,
  rule_id text not null,
  title text not null,
  severity text not null,
  group_id text not null,
  site_id text not null,
  fleet_id text,
  status text not null,
  member_count integer not null,
  active_count integer not null,
  flap_count integer not null default 0,
  raised_at timestamp with time zone not null,
  joined_at timestamp with time zone not null,
  cleared_at timestamp with time zone,
  notified_at timestamp with time zone,
  acknowledged_at timestamp with time zone,
  resolved_at timestamp with time zone,
  assignee_id text,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint incident_pkey PRIMARY KEY (org_id, id),
  constraint incident_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint incident_severity_check CHECK (severity = ANY (ARRAY['critical'::text, 'warning'::text, 'info'::text])),
  constraint incident_status_check CHECK (status = ANY (ARRAY['open'::text, 'acknowledged'::text, 'resolved'::text]))
);
CREATE INDEX incident_resolved ON incident USING btree (org_id, resolved_at) WHERE resolved_at IS NOT NULL;
CREATE INDEX incident_status ON incident USING btree (org_id, status, id);
CREATE INDEX incident_unresolved ON incident USING btree (org_id, id) WHERE status <> 'resolved'::text;
alter table incident enable row level security;
create policy tenant on incident using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on incident to pg_database_owner;

create table incident_entry (
  org_id text not null,
  incident_id text not null,
  id text not null,
  at timestamp with time zone not null,
  kind text not null,
  actor jsonb not null,
  comment text,
  constraint incident_entry_pkey PRIMARY KEY (org_id, incident_id, id),
  constraint incident_entry_org_id_incident_id_fkey FOREIGN KEY (org_id, incident_id) REFERENCES incident(org_id, id) ON DELETE CASCADE
);
alter table incident_entry enable row level security;
create policy tenant on incident_entry using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on incident_entry to pg_database_owner;

create table incident_member (
  org_id text not null,
  incident_id text not null,
  subject_id text not null,
  joined_at timestamp with time zone not null,
  left_at timestamp with time zone,
  constraint incident_member_pkey PRIMARY KEY (org_id, incident_id, subject_id),
  constraint incident_member_org_id_incident_id_fkey FOREIGN KEY (org_id, incident_id) REFERENCES incident(org_id, id) ON DELETE CASCADE
);
CREATE INDEX incident_member_subject ON incident_member USING btree (org_id, subject_id, incident_id);
alter table incident_member enable row level security;
create policy tenant on incident_member using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on incident_member to pg_database_owner;

create table log_batch (
  org_id text not null,
  robot_id text not null,
  first_seq bigint not null,
  last_seq bigint not null,
  received_at timestamp with time zone not null,
  first_at timestamp with time zone not null,
  last_at timestamp with time zone not null,
  record_count integer not null,
  codec text not null,
  records bytea not null,
  constraint log_batch_pkey PRIMARY KEY (org_id, robot_id, received_at, first_seq)
) partition by RANGE (received_at);
alter table log_batch enable row level security;
create policy tenant on log_batch using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on log_batch to pg_database_owner;

create table log_position (
  org_id text not null,
  robot_id text not null,
  outbox_id text not null,
  seq bigint not null,
  updated_at timestamp with time zone not null,
  constraint log_position_pkey PRIMARY KEY (org_id, robot_id),
  constraint log_position_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE
);
alter table log_position enable row level security;
create policy tenant on log_position using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on log_position to pg_database_owner;

create table log_robot_usage (
  org_id text not null,
  robot_id text not null,
  day timestamp with time zone not null,
  bytes bigint not null,
  constraint log_robot_usage_pkey PRIMARY KEY (org_id, robot_id, day),
  constraint log_robot_usage_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE
);
alter table log_robot_usage enable row level security;
create policy tenant on log_robot_usage using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on log_robot_usage to pg_database_owner;

create table log_usage (
  org_id text not null,
  period_at timestamp with time zone not null,
  bytes bigint not null,
  constraint log_usage_pkey PRIMARY KEY (org_id, period_at),
  constraint log_usage_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE
);
alter table log_usage enable row level security;
create policy tenant on log_usage using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on log_usage to pg_database_owner;

create table membership (
  org_id text not null,
  user_id text not null,
  role text not null,
  scopes jsonb not null default '[]'::jsonb,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  name text,
  constraint membership_pkey PRIMARY KEY (org_id, user_id, role),
  constraint membership_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint membership_user_id_fkey FOREIGN KEY (user_id) REFERENCES user_account(id) ON DELETE CASCADE,
  constraint membership_role_check CHECK (role = ANY (ARRAY['viewer'::text, 'operator'::text, 'admin'::text]))
);
CREATE INDEX membership_user ON membership USING btree (user_id);
alter table membership enable row level security;
create policy tenant on membership using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on membership to pg_database_owner;

create table metric_chunk (
  org_id text not null,
  robot_id text not null,
  first_at timestamp with time zone not null,
  last_at timestamp with time zone not null,
  seq bigint not null,
  chunk bytea not null,
  number bigint not null default 0,
  constraint metric_chunk_pkey PRIMARY KEY (org_id, robot_id, first_at, seq)
) partition by RANGE (first_at);
alter table metric_chunk enable row level security;
create policy tenant on metric_chunk using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on metric_chunk to pg_database_owner;

create table metric_position (
  org_id text not null,
  robot_id text not null,
  outbox_id text not null,
  seq bigint not null,
  dropped_samples bigint not null default 0,
  last_number bigint not null default 0,
  sent_number bigint not null default 0,
  unsent_from timestamp with time zone,
  queued_at timestamp with time zone,
  constraint metric_position_pkey PRIMARY KEY (org_id, robot_id),
  constraint metric_position_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE
);
CREATE INDEX metric_position_queued ON metric_position USING btree ((hashtext(robot_id) & 7), queued_at) WHERE queued_at IS NOT NULL;
alter table metric_position enable row level security;
create policy tenant on metric_position using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on metric_position to pg_database_owner;

create table metric_rollup (
  org_id text not null,
  name text not null,
  step_seconds integer not null,
  day timestamp with time zone not null,
  robot_id text not null,
  labels jsonb not null,
  intervals bytea not null,
  constraint metric_rollup_pkey PRIMARY KEY (org_id, name, step_seconds, day, robot_id, labels)
) partition by RANGE (day);
CREATE INDEX metric_rollup_robot ON ONLY metric_rollup USING btree (org_id, robot_id, day);
alter table metric_rollup enable row level security;
create policy tenant on metric_rollup using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on metric_rollup to pg_database_owner;

create table metric_rollup_position (
  org_id text not null,
  robot_id text not null,
  number bigint not null default 0,
  chunk_from timestamp with time zone,
  updated_at timestamp with time zone not null,
  constraint metric_rollup_position_pkey PRIMARY KEY (org_id, robot_id),
  constraint metric_rollup_position_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE
);
alter table metric_rollup_position enable row level security;
create policy tenant on metric_rollup_position using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on metric_rollup_position to pg_database_owner;

create table metric_shard (
  shard integer not null,
  leased_until timestamp with time zone,
  served_at timestamp with time zone,
  constraint metric_shard_pkey PRIMARY KEY (shard),
  constraint metric_shard_shard_check CHECK (shard >= 0 AND shard <= 7)
);

create table metric_value (
  org_id text not null,
  key text not null,
  robot_id text not null,
  at timestamp with time zone not null,
  mean_max double precision not null,
  mean_min double precision not null,
  rate_max double precision,
  constraint metric_value_pkey PRIMARY KEY (org_id, key, robot_id),
  constraint metric_value_org_id_key_fkey FOREIGN KEY (org_id, key) REFERENCES metric_watch(org_id, key) ON DELETE CASCADE,
  constraint metric_value_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE
);
CREATE INDEX metric_value_robot ON metric_value USING btree (org_id, robot_id);
alter table metric_value enable row level security;
create policy tenant on metric_value using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on metric_value to pg_database_owner;

create table metric_watch (
  org_id text not null,
  key text not null,
  metric text not null,
  labels jsonb not null,
  minutes integer not null,
  since_at timestamp with time zone not null,
  constraint metric_watch_pkey PRIMARY KEY (org_id, key),
  constraint metric_watch_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE
);
alter table metric_watch enable row level security;
create policy tenant on metric_watch using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on metric_watch to pg_database_owner;

create table node (
  id text not null,
  epoch bigint not null,
  beat bigint not null,
  is_over boolean not null,
  renewed_at timestamp with time zone not null default now(),
  started_at timestamp with time zone not null,
  version text,
  address text,
  tls_fingerprint text,
  refused_host text,
  refused_host_at timestamp with time zone,
  constraint node_pkey PRIMARY KEY (id)
);

create table open_stream (
  org_id text not null,
  id text not null,
  node_id text not null,
  node_epoch bigint not null,
  entry jsonb not null,
  opened_at timestamp with time zone not null,
  constraint open_stream_pkey PRIMARY KEY (org_id, id),
  constraint open_stream_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE
);
alter table open_stream enable row level security;
create policy tenant on open_stream using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on open_stream to pg_database_owner;

create table org (
  id text not null,
  name text not null,
  email text,
  status text not null,
  settings jsonb not null default '{}'::jsonb,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint org_pkey PRIMARY KEY (id),
  constraint org_name_key UNIQUE (name),
  constraint org_status_check CHECK (status = ANY (ARRAY['pending'::text, 'active'::text, 'suspended'::text]))
);
alter table org enable row level security;
create policy tenant on org using (id = current_setting('app.org'::text, true));
grant delete, insert, select, update on org to pg_database_owner;

create table release (
  org_id text not null,
  id text not null,
  tag text not null,
  app text not null default 'main'::text,
  notes text,
  kind text not null,
  artifact_sha256 text not null,
  artifact_size bigint not null,
  artifact_state text not null,
  image text,
  manifest jsonb,
  signature jsonb,
  created_by jsonb,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint release_pkey PRIMARY KEY (org_id, id),
  constraint release_org_id_tag_key UNIQUE (org_id, tag),
  constraint release_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint release_artifact_size_check CHECK (artifact_size >= 0),
  constraint release_artifact_state_check CHECK (artifact_state = ANY (ARRAY['awaiting_upload'::text, 'stored'::text, 'external'::text]))
);
CREATE INDEX release_artifact ON release USING btree (org_id, artifact_sha256);
alter table release enable row level security;
create policy tenant on release using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on release to pg_database_owner;

create table retention_clock (
  id integer not null,
  seen_at timestamp with time zone not null,
  jumps jsonb not null default '[]'::jsonb,
  constraint retention_clock_pkey PRIMARY KEY (id),
  constraint retention_clock_id_check CHECK (id = 1)
);

create table robot (
  org_id text not null,
  id text not null,
  name text not null,
  site_id text not null,
  fleet_id text not null,
  fleet_since timestamp with time zone,
  labels jsonb not null default '{}'::jsonb,
  public_key bytea not null,
  enrollment_key_id text,
  agent_version text,
  platform jsonb,
  kinds jsonb not null default '[]'::jsonb,
  streams jsonb not null default '[]'::jsonb,
  node_id text,
  node_epoch bigint,
  session_id text,
  connected_at timestamp with time zone,
  last_seen_at timestamp with time zone,
  runs jsonb not null default '[]'::jsonb,
  held_at timestamp with time zone,
  decommissioned_at timestamp with time zone,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  approval_requested_at timestamp with time zone,
  fleet_order_number bigint not null default nextval('order_number'::regclass),
  constraint robot_pkey PRIMARY KEY (org_id, id),
  constraint robot_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE
);
CREATE INDEX robot_awaiting_approval ON robot USING btree (org_id, id) WHERE approval_requested_at IS NOT NULL;
CREATE INDEX robot_decommissioned ON robot USING btree (org_id, id) WHERE decommissioned_at IS NOT NULL;
CREATE INDEX robot_fleet ON robot USING btree (org_id, fleet_id, id);
CREATE INDEX robot_held ON robot USING btree (org_id, id) WHERE held_at IS NOT NULL;
CREATE INDEX robot_name ON robot USING btree (org_id, name COLLATE "C", id);
CREATE INDEX robot_never_connected ON robot USING btree (org_id, id) WHERE connected_at IS NULL;
CREATE INDEX robot_node ON robot USING btree (node_id, node_epoch) WHERE node_id IS NOT NULL;
CREATE INDEX robot_online ON robot USING btree (org_id, fleet_id) WHERE node_id IS NOT NULL;
CREATE INDEX robot_site ON robot USING btree (org_id, site_id, id);
alter table robot enable row level security;
create policy tenant on robot using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on robot to pg_database_owner;
CREATE TRIGGER robot_labels_inserted AFTER INSERT ON robot FOR EACH ROW WHEN (new.labels <> '{}'::jsonb) EXECUTE FUNCTION write_robot_labels();
CREATE TRIGGER robot_labels_updated AFTER UPDATE OF labels ON robot FOR EACH ROW WHEN (old.labels IS DISTINCT FROM new.labels) EXECUTE FUNCTION write_robot_labels();
CREATE TRIGGER robots_gone AFTER DELETE ON robot REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION delete_unknown_robots();
CREATE TRIGGER robots_unknown AFTER INSERT ON robot REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION insert_unknown_robots();

create table robot_app (
  org_id text not null,
  robot_id text not null,
  app text not null,
  current_release_id text,
  previous_release_id text,
  desired_release_id text,
  target_id text,
  deployment_id text,
  attempt integer not null default 0,
  verify_seconds integer not null default 30,
  install_from timestamp with time zone,
  install_until timestamp with time zone,
  status text not null default 'unknown'::text,
  failed_release_id text,
  last_target_id text not null default ''::text,
  state text not null default 
CASE
    WHEN failed_release_id IS NOT NULL AND target_id IS NULL THEN 'failed'::text
    WHEN desired_release_id IS NULL AND current_release_id IS NULL THEN 'unknown'::text
    WHEN desired_release_id IS NULL OR desired_release_id = current_release_id THEN 'current'::text
    ELSE 'behind'::text
END,
  updated_at timestamp with time zone not null,
  last_order_number bigint not null default 0,
  constraint robot_app_pkey PRIMARY KEY (org_id, robot_id, app),
  constraint robot_app_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE
);
CREATE INDEX robot_app_any_state ON robot_app USING btree (org_id, state, robot_id);
CREATE INDEX robot_app_current ON robot_app USING btree (org_id, current_release_id, robot_id);
CREATE INDEX robot_app_state ON robot_app USING btree (org_id, app, state, robot_id);
alter table robot_app enable row level security;
create policy tenant on robot_app using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on robot_app to pg_database_owner;
CREATE TRIGGER release_deleted AFTER DELETE ON robot_app FOR EACH ROW WHEN (old.state <> 'unknown'::text) EXECUTE FUNCTION insert_unknown_robot('release');
CREATE TRIGGER release_inserted AFTER INSERT ON robot_app FOR EACH ROW WHEN (new.state <> 'unknown'::text) EXECUTE FUNCTION delete_unknown_robot('release');
CREATE TRIGGER release_known AFTER UPDATE ON robot_app FOR EACH ROW WHEN (old.state = 'unknown'::text AND new.state <> 'unknown'::text) EXECUTE FUNCTION delete_unknown_robot('release');
CREATE TRIGGER release_unknown AFTER UPDATE ON robot_app FOR EACH ROW WHEN (old.state <> 'unknown'::text AND new.state = 'unknown'::text) EXECUTE FUNCTION insert_unknown_robot('release');

create table robot_config (
  org_id text not null,
  robot_id text not null,
  namespace text not null,
  version integer not null default 0,
  content text not null,
  sha256 text not null,
  previous_content text,
  previous_sha256 text,
  unchanged boolean not null default false,
  reported_version integer,
  reported_sha256 text,
  target_id text,
  deployment_id text,
  attempt integer not null default 0,
  last_target_id text not null default ''::text,
  state text not null default 
CASE
    WHEN reported_sha256 = sha256 THEN 'in_sync'::text
    WHEN target_id IS NOT NULL OR reported_version IS DISTINCT FROM version THEN 'pending'::text
    WHEN reported_sha256 IS NOT NULL THEN 'drifted'::text
    ELSE 'unknown'::text
END,
  updated_at timestamp with time zone not null,
  constraint robot_config_pkey PRIMARY KEY (org_id, robot_id, namespace),
  constraint robot_config_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE
);
CREATE INDEX robot_config_state ON robot_config USING btree (org_id, state, robot_id);
alter table robot_config enable row level security;
create policy tenant on robot_config using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on robot_config to pg_database_owner;
CREATE TRIGGER config_deleted AFTER DELETE ON robot_config FOR EACH ROW WHEN (old.state <> 'unknown'::text) EXECUTE FUNCTION insert_unknown_robot('config');
CREATE TRIGGER config_inserted AFTER INSERT ON robot_config FOR EACH ROW WHEN (new.state <> 'unknown'::text) EXECUTE FUNCTION delete_unknown_robot('config');
CREATE TRIGGER config_known AFTER UPDATE ON robot_config FOR EACH ROW WHEN (old.state = 'unknown'::text AND new.state <> 'unknown'::text) EXECUTE FUNCTION delete_unknown_robot('config');
CREATE TRIGGER config_unknown AFTER UPDATE ON robot_config FOR EACH ROW WHEN (old.state <> 'unknown'::text AND new.state = 'unknown'::text) EXECUTE FUNCTION insert_unknown_robot('config');

create table robot_config_order (
  org_id text not null,
  robot_id text not null,
  namespace text not null,
  last_order_number bigint not null,
  constraint robot_config_order_pkey PRIMARY KEY (org_id, robot_id, namespace),
  constraint robot_config_order_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE
);
alter table robot_config_order enable row level security;
create policy tenant on robot_config_order using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on robot_config_order to pg_database_owner;

create table robot_desired (
  org_id text not null,
  robot_id text not null,
  generation bigint not null default 0,
  observed_generation bigint not null default 0,
  outbox_id text not null default ''::text,
  outbox_seq bigint not null default 0,
  updated_at timestamp with time zone not null,
  constraint robot_desired_pkey PRIMARY KEY (org_id, robot_id),
  constraint robot_desired_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE
);
alter table robot_desired enable row level security;
create policy tenant on robot_desired using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on robot_desired to pg_database_owner;

create table robot_follow (
  org_id text not null,
  robot_id text not null,
  subject text not null,
  deployment_id text not null,
  created_at timestamp with time zone not null,
  order_number bigint not null default nextval('order_number'::regclass),
  constraint robot_follow_pkey PRIMARY KEY (org_id, robot_id, subject),
  constraint robot_follow_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE
);
alter table robot_follow enable row level security;
create policy tenant on robot_follow using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on robot_follow to pg_database_owner;

create table robot_key (
  public_key bytea not null,
  org_id text not null,
  robot_id text not null,
  created_at timestamp with time zone not null,
  constraint robot_key_pkey PRIMARY KEY (public_key),
  constraint robot_key_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX robot_key_robot ON robot_key USING btree (robot_id);
alter table robot_key enable row level security;
create policy tenant on robot_key using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on robot_key to pg_database_owner;

create table robot_label (
  org_id text not null,
  key text not null,
  value text not null,
  robot_id text not null,
  constraint robot_label_pkey PRIMARY KEY (org_id, key, value, robot_id),
  constraint robot_label_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE
);
CREATE INDEX robot_label_robot ON robot_label USING btree (org_id, robot_id);
alter table robot_label enable row level security;
create policy tenant on robot_label using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on robot_label to pg_database_owner;

create table robot_position (
  org_id text not null,
  robot_id text not null,
  at timestamp with time zone not null,
  latitude_degrees double precision,
  longitude_degrees double precision,
  x_meters double precision,
  y_meters double precision,
  heading_degrees double precision,
  constraint robot_position_pkey PRIMARY KEY (org_id, robot_id),
  constraint robot_position_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE,
  constraint robot_position_check CHECK ((latitude_degrees IS NULL) = (longitude_degrees IS NULL)),
  constraint robot_position_check1 CHECK ((x_meters IS NULL) = (y_meters IS NULL)),
  constraint robot_position_check2 CHECK (latitude_degrees IS NOT NULL OR x_meters IS NOT NULL)
);
alter table robot_position enable row level security;
create policy tenant on robot_position using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on robot_position to pg_database_owner;

create table robot_request (
  org_id text not null,
  robot_id text not null,
  nonce text not null,
  expires_at timestamp with time zone not null,
  constraint robot_request_pkey PRIMARY KEY (org_id, robot_id, nonce)
);
CREATE INDEX robot_request_expiry ON robot_request USING btree (expires_at);
alter table robot_request enable row level security;
create policy tenant on robot_request using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on robot_request to pg_database_owner;

create table robot_unknown (
  org_id text not null,
  state text not null,
  robot_id text not null,
  constraint robot_unknown_pkey PRIMARY KEY (org_id, state, robot_id),
  constraint robot_unknown_state_check CHECK (state = ANY (ARRAY['health'::text, 'release'::text, 'config'::text]))
);
alter table robot_unknown enable row level security;
create policy tenant on robot_unknown using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on robot_unknown to pg_database_owner;

create table saved_view (
  org_id text not null,
  id text not null,
  page text not null,
  name text not null,
  query text not null,
  owner_id text,
  created_by jsonb not null,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint saved_view_pkey PRIMARY KEY (org_id, id),
  constraint saved_view_org_id_owner_id_page_name_key UNIQUE (org_id, owner_id, page, name),
  constraint saved_view_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint saved_view_page_check CHECK (page = ANY (ARRAY['robots'::text, 'fleets'::text, 'sites'::text, 'deployments'::text, 'releases'::text, 'incidents'::text, 'logs'::text, 'metrics'::text, 'audit'::text]))
);
CREATE UNIQUE INDEX saved_view_shared ON saved_view USING btree (org_id, page, name) WHERE owner_id IS NULL;
alter table saved_view enable row level security;
create policy tenant on saved_view using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on saved_view to pg_database_owner;

create table secret_key (
  org_id text not null,
  id text not null,
  master_key_id text not null,
  wrapped text not null,
  created_at timestamp with time zone not null,
  constraint secret_key_pkey PRIMARY KEY (org_id, id),
  constraint secret_key_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE
);
CREATE INDEX secret_key_master ON secret_key USING btree (master_key_id);
alter table secret_key enable row level security;
create policy tenant on secret_key using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on secret_key to pg_database_owner;

create table shell_recording (
  org_id text not null,
  session_id text not null,
  seq integer not null,
  bytes bytea not null,
  constraint shell_recording_pkey PRIMARY KEY (org_id, session_id, seq),
  constraint shell_recording_org_id_session_id_fkey FOREIGN KEY (org_id, session_id) REFERENCES shell_session(org_id, id) ON DELETE CASCADE
);
alter table shell_recording enable row level security;
create policy tenant on shell_recording using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on shell_recording to pg_database_owner;

create table shell_session (
  org_id text not null,
  id text not null,
  robot_id text not null,
  request_id text not null,
  actor jsonb not null,
  ip text not null,
  app text,
  command jsonb,
  terminal boolean not null,
  status text not null,
  exit_code integer,
  reason text,
  node_id text not null,
  node_epoch bigint not null,
  started_at timestamp with time zone not null,
  ended_at timestamp with time zone,
  output_bytes bigint not null default 0,
  recording_bytes bigint not null default 0,
  recording_dropped_at timestamp with time zone,
  actor_id text default actor ->> 'id'::text,
  constraint shell_session_pkey PRIMARY KEY (org_id, id),
  constraint shell_session_org_id_robot_id_fkey FOREIGN KEY (org_id, robot_id) REFERENCES robot(org_id, id) ON DELETE CASCADE,
  constraint shell_session_status_check CHECK (status = ANY (ARRAY['open'::text, 'ended'::text, 'aborted'::text]))
);
CREATE INDEX shell_session_actor ON shell_session USING btree (org_id, actor_id, id);
CREATE INDEX shell_session_kept ON shell_session USING btree (started_at) WHERE recording_dropped_at IS NULL;
CREATE INDEX shell_session_open ON shell_session USING btree (org_id, id) WHERE status = 'open'::text;
CREATE INDEX shell_session_robot ON shell_session USING btree (org_id, robot_id, id);
CREATE INDEX shell_session_status ON shell_session USING btree (org_id, status, id);
alter table shell_session enable row level security;
create policy tenant on shell_session using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on shell_session to pg_database_owner;

create table signing_trust (
  org_id text not null,
  serial integer not null,
  statement jsonb not null,
  created_by jsonb,
  created_at timestamp with time zone not null,
  constraint signing_trust_pkey PRIMARY KEY (org_id, serial),
  constraint signing_trust_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint signing_trust_serial_check CHECK (serial > 0)
);
alter table signing_trust enable row level security;
create policy tenant on signing_trust using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on signing_trust to pg_database_owner;

create table site (
  org_id text not null,
  id text not null,
  name text not null,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint site_pkey PRIMARY KEY (org_id, id),
  constraint site_org_id_name_key UNIQUE (org_id, name),
  constraint site_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE
);
alter table site enable row level security;
create policy tenant on site using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on site to pg_database_owner;

create table site_floor_plan (
  org_id text not null,
  site_id text not null,
  content_type text not null,
  image bytea not null,
  meters_per_pixel double precision not null,
  origin_x_meters double precision not null,
  origin_y_meters double precision not null,
  updated_at timestamp with time zone not null,
  constraint site_floor_plan_pkey PRIMARY KEY (org_id, site_id),
  constraint site_floor_plan_org_id_site_id_fkey FOREIGN KEY (org_id, site_id) REFERENCES site(org_id, id) ON DELETE CASCADE,
  constraint site_floor_plan_content_type_check CHECK (content_type = ANY (ARRAY['image/png'::text, 'image/jpeg'::text, 'image/webp'::text]))
);
alter table site_floor_plan enable row level security;
create policy tenant on site_floor_plan using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on site_floor_plan to pg_database_owner;

create table stream_ticket (
  hash bytea not null,
  org_id text not null,
  proof_by text not null,
  proof_hash bytea not null,
  stream text not null,
  object_id text not null,
  uses integer not null,
  expires_at timestamp with time zone not null,
  created_at timestamp with time zone not null,
  constraint stream_ticket_pkey PRIMARY KEY (hash),
  constraint stream_ticket_org_id_fkey FOREIGN KEY (org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint stream_ticket_proof_by_check CHECK (proof_by = ANY (ARRAY['token'::text, 'session'::text]))
);
CREATE INDEX stream_ticket_expiry ON stream_ticket USING btree (expires_at);
CREATE INDEX stream_ticket_org ON stream_ticket USING btree (org_id);
alter table stream_ticket enable row level security;
create policy tenant on stream_ticket using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on stream_ticket to pg_database_owner;

create table timeline_entry (
  org_id text not null,
  robot_id text not null,
  id text not null,
  at timestamp with time zone not null,
  kind text not null,
  actor jsonb not null,
  summary text not null,
  data jsonb not null default '{}'::jsonb,
  constraint timeline_entry_pkey PRIMARY KEY (org_id, robot_id, id)
);
CREATE INDEX timeline_entry_kind ON timeline_entry USING btree (org_id, kind, id);
CREATE INDEX timeline_entry_org ON timeline_entry USING btree (org_id, id);
alter table timeline_entry enable row level security;
create policy tenant on timeline_entry using (org_id = current_setting('app.org'::text, true));
grant delete, insert, select, update on timeline_entry to pg_database_owner;

create table user_account (
  id text not null,
  email text not null,
  name text not null,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint user_account_pkey PRIMARY KEY (id),
  constraint user_account_email_key UNIQUE (email)
);
grant delete, insert, select, update on user_account to pg_database_owner;

create table web_session (
  id text not null,
  hash bytea not null,
  token_id text not null,
  token_hash bytea not null,
  current_org_id text not null,
  expires_at timestamp with time zone not null,
  used_at timestamp with time zone not null,
  created_at timestamp with time zone not null,
  updated_at timestamp with time zone not null,
  constraint web_session_pkey PRIMARY KEY (id),
  constraint web_session_hash_key UNIQUE (hash),
  constraint web_session_current_org_id_fkey FOREIGN KEY (current_org_id) REFERENCES org(id) ON DELETE CASCADE,
  constraint web_session_token_id_fkey FOREIGN KEY (token_id) REFERENCES credential(id) ON DELETE CASCADE
);
CREATE INDEX web_session_org ON web_session USING btree (current_org_id);
CREATE INDEX web_session_token ON web_session USING btree (token_id);
grant delete, insert, select, update on web_session to pg_database_owner;
