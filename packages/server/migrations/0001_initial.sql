-- Ids are `prefix_` + base32 UUIDv7, made by the program. org_id leads every primary key, foreign key and index of
-- tenant data, so that the same statements run when orgs are spread over several databases. Times are parameters.

create table org (
  id text primary key,
  name text not null unique,
  -- of whoever asked for the org
  email text,
  status text not null check (status in ('pending', 'active', 'suspended')),
  settings jsonb not null default '{}',
  created_at timestamptz not null,
  updated_at timestamptz not null
);

create table user_account (
  id text primary key,
  email text not null unique,
  name text not null,
  created_at timestamptz not null,
  updated_at timestamptz not null
);

-- What a user may do in an org: one grant a role, so that somebody may look at everything and operate one site.
create table membership (
  org_id text not null references org (id) on delete cascade,
  user_id text not null references user_account (id) on delete cascade,
  role text not null check (role in ('viewer', 'operator', 'admin')),
  -- [{site_id} | {fleet_id}]; empty is the whole org
  scopes jsonb not null default '[]',
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, user_id, role)
);
create index membership_user on membership (user_id);

-- A portal token, found by the SHA-256 of its secret before any org is known.
create table credential (
  id text primary key,
  hash bytea not null unique,
  -- what it was before the last rotation, and until when that is still taken
  previous_hash bytea unique,
  previous_until timestamptz,
  -- org: a token of the org itself; user: never more than its user may do
  kind text not null check (kind in ('org', 'user')),
  org_id text not null references org (id) on delete cascade,
  user_id text references user_account (id) on delete cascade,
  -- A user's token opens org_id alone, or every org of its user, org_id being the default one. What an org's admin issues
  -- opens that org alone: who administers one org of a user must not get into the others.
  every_org boolean not null default false,
  role text not null check (role in ('viewer', 'operator', 'admin')),
  scopes jsonb not null default '[]',
  label text,
  prefix text not null,
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  created_by jsonb,
  created_at timestamptz not null,
  updated_at timestamptz not null
);
create index credential_org on credential (org_id, id);
create index credential_user on credential (user_id) where user_id is not null;

-- A browser's stand-in for a token, found by the SHA-256 of its cookie before any org is known. What it may do is what its
-- token may, looked up with it; current_org_id is the one of the token's orgs that it is about.
create table web_session (
  id text primary key,
  hash bytea not null unique,
  token_id text not null references credential (id) on delete cascade,
  -- the secret that it was made with: when a rotation ends that one, the session ends too
  token_hash bytea not null,
  current_org_id text not null references org (id) on delete cascade,
  expires_at timestamptz not null,
  used_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null
);
create index web_session_token on web_session (token_id);
create index web_session_org on web_session (current_org_id);

create table site (
  org_id text not null references org (id) on delete cascade,
  id text not null,
  name text not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, id),
  unique (org_id, name)
);

create table fleet (
  org_id text not null,
  id text not null,
  site_id text not null,
  name text not null,
  -- {app: {id, tag}}: what the last fleet deployment that ended applied brought
  desired jsonb not null default '{}',
  config_revision text,
  follow boolean not null default true,
  -- members up to this one have been looked at since what the fleet has changed; null: all have
  follow_cursor text,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, id),
  unique (org_id, site_id, name),
  foreign key (org_id, site_id) references site (org_id, id)
);
create index fleet_to_follow on fleet (org_id, id) where follow_cursor is not null;

create table robot (
  org_id text not null,
  id text not null,
  name text not null,
  site_id text not null,
  fleet_id text not null,
  -- when it was moved there; null: it enrolled into it
  fleet_since timestamptz,
  labels jsonb not null default '{}',
  public_key bytea not null,
  enrollment_key_id text,
  agent_version text,
  platform jsonb,
  -- release kinds and streams that the agent announced at its last hello
  kinds jsonb not null default '[]',
  streams jsonb not null default '[]',
  -- the node that holds the robot's link; null: offline
  node_id text,
  node_epoch bigint,
  session_id text,
  connected_at timestamptz,
  last_seen_at timestamptz,
  -- runs of the agent that connected, the newest first: one that comes back after another is a second machine
  runs jsonb not null default '[]',
  -- since when nobody is let in with this identity, because several machines have it
  held_at timestamptz,
  decommissioned_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- No foreign keys to site and fleet: a decommissioned robot keeps the names of places that may be deleted. Whoever puts
  -- a robot into a fleet locks the fleet's row.
  primary key (org_id, id),
  foreign key (org_id) references org (id) on delete cascade
);
-- Decommissioned robots are in them: the timeline of a fleet tells of them too.
create index robot_fleet on robot (org_id, fleet_id, id);
create index robot_site on robot (org_id, site_id, id);
create index robot_decommissioned on robot (org_id, id) where decommissioned_at is not null;
create index robot_node on robot (node_id, node_epoch) where node_id is not null;
create index robot_online on robot (org_id, fleet_id) where node_id is not null;
create index robot_never_connected on robot (org_id, id) where connected_at is null;
create index robot_held on robot (org_id, id) where held_at is not null;
create index robot_name on robot (org_id, name collate "C", id);
create index robot_labels on robot using gin (labels jsonb_path_ops);

-- A robot's public key, found before any org is known.
create table robot_key (
  public_key bytea primary key,
  org_id text not null,
  robot_id text not null,
  created_at timestamptz not null,
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
create unique index robot_key_robot on robot_key (robot_id);

create table enrollment_key (
  org_id text not null,
  id text not null,
  hash bytea not null unique,
  label text,
  site_id text not null,
  fleet_id text not null,
  -- the robot that whoever enrols with it becomes; null: a new one
  robot_id text,
  max_uses integer not null check (max_uses >= 0),
  uses integer not null default 0,
  expires_at timestamptz,
  revoked_at timestamptz,
  created_by jsonb,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, id),
  check (max_uses = 0 or uses <= max_uses),
  foreign key (org_id, fleet_id) references fleet (org_id, id) on delete cascade,
  foreign key (org_id, site_id) references site (org_id, id) on delete cascade
);

create table release (
  org_id text not null references org (id) on delete cascade,
  id text not null,
  tag text not null,
  app text not null default 'main',
  notes text,
  kind text not null,
  artifact_sha256 text not null,
  artifact_size bigint not null check (artifact_size >= 0),
  artifact_state text not null check (artifact_state in ('awaiting_upload', 'stored', 'external')),
  image text,
  manifest jsonb,
  signature jsonb,
  created_by jsonb,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, id),
  unique (org_id, tag)
);
create index release_artifact on release (org_id, artifact_sha256);

-- Whose signatures of releases the org's robots take: each statement whole, and signed by a key of the one before.
create table signing_trust (
  org_id text not null references org (id) on delete cascade,
  serial integer not null check (serial > 0),
  -- key_id, text, value: as it was signed, for the robots
  statement jsonb not null,
  created_by jsonb,
  created_at timestamptz not null,
  primary key (org_id, serial)
);

-- The artifacts that are stored, once per org and digest however many releases name them. Whoever makes or removes a
-- blob holds its row.
create table artifact (
  org_id text not null references org (id) on delete cascade,
  sha256 text not null,
  size bigint not null check (size >= 0),
  stored_at timestamptz not null,
  -- since when no release names it; a day later it is removed
  unreferenced_at timestamptz,
  primary key (org_id, sha256)
);
create index artifact_unreferenced on artifact (unreferenced_at) where unreferenced_at is not null;

-- What an artifact that is an image consists of: where in the artifact each part lies, whose bytes are the part's blob.
create table artifact_layer (
  org_id text not null,
  artifact_sha256 text not null,
  -- os/architecture of the image; '' where nothing tells
  platform text not null,
  -- 0: the image's config; from 1 on its layers, the lowest first
  position integer not null check (position >= 0),
  sha256 text not null,
  size bigint not null check (size >= 0),
  start bigint not null check (start >= 0),
  -- digest of the layer's plain tar
  diff_id text,
  primary key (org_id, artifact_sha256, platform, position),
  foreign key (org_id, artifact_sha256) references artifact (org_id, sha256) on delete cascade,
  check ((diff_id is null) = (position = 0))
);
create index artifact_layer_blob on artifact_layer (org_id, sha256);

-- Resumable uploads, one for each release: room that is not taken yet and will be. How far one has come, its file knows.
create table artifact_upload (
  org_id text not null,
  release_id text not null,
  size bigint not null check (size >= 0),
  created_at timestamptz not null,
  -- a day after the last bytes came
  expires_at timestamptz not null,
  -- which request works on it, in which run of which node; the beat grows as long as it moves
  holder text,
  holder_node text,
  holder_epoch bigint,
  holder_beat bigint not null default 0,
  primary key (org_id, release_id),
  foreign key (org_id, release_id) references release (org_id, id) on delete cascade
);
create index artifact_upload_expires on artifact_upload (expires_at);

-- What a robot is to look like, as a number that grows with each change, and how far its reports have been taken:
-- they are accepted once, by sequence number within the outbox that the robot named last.
create table robot_desired (
  org_id text not null,
  robot_id text not null,
  generation bigint not null default 0,
  observed_generation bigint not null default 0,
  outbox_id text not null default '',
  outbox_seq bigint not null default 0,
  updated_at timestamptz not null,
  primary key (org_id, robot_id),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);

create table health_snapshot (
  org_id text not null,
  robot_id text not null,
  received_at timestamptz not null,
  snapshot jsonb not null,
  -- what the snapshot comes to, and what fails, in words
  state text not null check (state in ('ok', 'failing')),
  failing jsonb not null default '[]',
  primary key (org_id, robot_id),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
create index health_snapshot_failing on health_snapshot (org_id, robot_id) where state = 'failing';

-- Robots' health over time: a point a minute, a row for each ten minutes of a robot. Daily partitions are made ahead by the
-- program, and retention drops them whole.
create table health_history (
  org_id text not null,
  robot_id text not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  -- JSON: names of disks once, then the values of each point
  points text not null,
  primary key (org_id, robot_id, first_at)
) partition by range (first_at);
create table health_history_default partition of health_history default;

-- What one robot runs and is to run, app by app.
create table robot_app (
  org_id text not null,
  robot_id text not null,
  app text not null,
  current_release_id text,
  previous_release_id text,
  desired_release_id text,
  -- the deployment target that asks for the desired release; null when none is under way
  target_id text,
  deployment_id text,
  attempt integer not null default 0,
  verify_seconds integer not null default 30,
  -- the robot installs it only in between; null: whenever
  install_from timestamptz,
  install_until timestamptz,
  status text not null default 'unknown',
  -- the last target of this app that failed or was rolled back brought this release
  failed_release_id text,
  -- the newest target ever dispatched: an older one is not dispatched after it
  last_target_id text not null default '',
  -- failed until something newer is tried: what runs then is the release before
  state text not null generated always as (case
    when failed_release_id is not null and target_id is null then 'failed'
    when desired_release_id is null and current_release_id is null then 'unknown'
    when desired_release_id is null or desired_release_id = current_release_id then 'current'
    else 'behind' end) stored,
  updated_at timestamptz not null,
  primary key (org_id, robot_id, app),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
create index robot_app_current on robot_app (org_id, current_release_id, robot_id);
create index robot_app_desired on robot_app (org_id, desired_release_id);
create index robot_app_state on robot_app (org_id, app, state, robot_id);

-- Deployments of releases (kind release) and of configs (kind config): one machine runs both.
create table deployment (
  org_id text not null references org (id) on delete cascade,
  id text not null,
  kind text not null check (kind in ('release', 'config')),
  target_kind text not null check (target_kind in ('robot', 'fleet')),
  robot_id text,
  fleet_id text,
  release_id text,
  app text,
  namespace text,
  revision text,
  rollout jsonb not null default '{}',
  scheduled_at timestamptz,
  status text not null check (status in ('scheduled', 'queued', 'in_progress', 'paused', 'rolling_back', 'cancelling', 'applied', 'failed', 'rolled_back', 'cancelled')),
  reason text,
  -- targets made so far; null total: the fleet is not resolved yet
  fan_out_at timestamptz,
  fan_out_done_at timestamptz,
  fan_out_cursor text,
  count_total integer not null default 0,
  count_pending integer not null default 0,
  count_queued integer not null default 0,
  count_active integer not null default 0,
  count_applied integer not null default 0,
  count_failed integer not null default 0,
  count_rolled_back integer not null default 0,
  count_cancelled integer not null default 0,
  -- {status: {reason: targets}} of those that have ended
  reason_counts jsonb not null default '{}',
  event_seq bigint not null default 0,
  -- targets that came to their robots, each once; also those that a robot could not have at all
  count_dispatched integer not null default 0,
  -- waves that have robots, the implicit last one too; highest one opened; since when it has passed: its soak time
  wave_count integer not null default 1,
  current_wave integer not null default 0,
  wave_passed_at timestamptz,
  -- the last wave out of which somebody asked for the step
  promoted_wave integer not null default -1,
  -- the next of the policy's waves whose robots are to be found; null: all are
  wave_to_assign integer,
  -- when the rollout loop looks at it again
  step_at timestamptz,
  -- failures over the threshold that somebody has seen and resumed after
  failures_accepted integer not null default 0,
  cancel_requested_at timestamptz,
  -- rollback: robots that were installing when it was cancelled go back once they are done
  cancel_mode text check (cancel_mode in ('finish', 'rollback')),
  stop_requested_at timestamptz,
  rollback_requested_at timestamptz,
  paused_at timestamptz,
  expires_at timestamptz,
  -- the ended deployment whose targets this one's are made of: failed and rolled back ones, or applied ones
  retry_of text,
  rollback_of text,
  created_by jsonb not null,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, id)
);
create index deployment_kind on deployment (org_id, kind, id);
create index deployment_status on deployment (org_id, kind, status, id);
create index deployment_robot on deployment (org_id, robot_id, id) where robot_id is not null;
create index deployment_fleet on deployment (org_id, fleet_id, id) where fleet_id is not null;
create index deployment_open on deployment (org_id, id) where finished_at is null;
create index deployment_release on deployment (org_id, release_id, id) where release_id is not null;
create index deployment_open_expiry on deployment (expires_at) where finished_at is null and expires_at is not null;
create index deployment_step on deployment (step_at) where finished_at is null and step_at is not null;
create index deployment_called_off on deployment (org_id, id) where finished_at is null and (cancel_requested_at is not null or rollback_requested_at is not null);
create index deployment_fan_out on deployment (fan_out_at) where fan_out_at is not null and fan_out_done_at is null and finished_at is null;

-- Waves of those deployments that have more than everyone at once; counted with their targets.
create table deployment_wave (
  org_id text not null,
  deployment_id text not null,
  wave integer not null,
  size integer not null default 0,
  opened_at timestamptz,
  passed_at timestamptz,
  count_pending integer not null default 0,
  count_queued integer not null default 0,
  count_active integer not null default 0,
  count_applied integer not null default 0,
  count_failed integer not null default 0,
  count_rolled_back integer not null default 0,
  count_cancelled integer not null default 0,
  primary key (org_id, deployment_id, wave),
  foreign key (org_id, deployment_id) references deployment (org_id, id) on delete cascade
);

-- Scheduled deployments that wait for their time, across orgs. Taking the row is what dispatches it, once.
create table deployment_due (
  org_id text not null,
  id text not null,
  due_at timestamptz not null,
  -- it could not start: when that is tried again
  not_before_at timestamptz,
  primary key (org_id, id),
  foreign key (org_id, id) references deployment (org_id, id) on delete cascade
);
create index deployment_due_next on deployment_due (coalesce(not_before_at, due_at));

-- One robot of a deployment.
create table deployment_target (
  org_id text not null,
  deployment_id text not null,
  id text not null,
  kind text not null check (kind in ('release', 'config')),
  robot_id text not null,
  -- what is replaced: app of a release, namespace of a config; later targets of the same subject supersede earlier ones
  subject text not null,
  release_id text,
  wave integer not null default 0,
  status text not null check (status in ('pending', 'queued', 'dispatched', 'downloading', 'staged', 'installing', 'verifying', 'rolling_back', 'applied', 'failed', 'rolled_back', 'cancelled')),
  reason text,
  attempt integer not null default 0,
  waiting_for text check (waiting_for in ('robot_online', 'slot', 'window', 'artifact', 'previous_deployment', 'gate', 'robot')),
  progress jsonb,
  previous_release_id text,
  -- robot's generation at which it was dispatched: orders dispatches of one robot
  dispatch_generation bigint,
  -- when the present step counts as timed out
  deadline_at timestamptz,
  -- a retry is not dispatched before
  not_before_at timestamptz,
  -- the server takes the robot back to its previous release
  reverting boolean not null default false,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, deployment_id, id),
  unique (org_id, deployment_id, robot_id, subject),
  foreign key (org_id, deployment_id) references deployment (org_id, id) on delete cascade
);
create unique index deployment_target_id on deployment_target (org_id, id);
create index deployment_target_robot_open on deployment_target (org_id, robot_id, subject) where status not in ('applied', 'failed', 'rolled_back', 'cancelled');
create index deployment_target_claim on deployment_target (deployment_id, org_id, coalesce(not_before_at, '-infinity'), id) where status = 'queued' and waiting_for is null;
create index deployment_target_pending on deployment_target (org_id, deployment_id, wave, robot_id) where status = 'pending';
create index deployment_target_held on deployment_target (org_id, deployment_id, waiting_for, wave, id) where waiting_for in ('slot', 'gate');
create index deployment_target_waiting_release on deployment_target (org_id, release_id) where status = 'queued' and waiting_for = 'artifact';
create index deployment_target_ended_badly on deployment_target (org_id, deployment_id, status, id) where status in ('failed', 'rolled_back', 'cancelled');
create index deployment_target_deadline on deployment_target (deadline_at) where deadline_at is not null;

create table deployment_event (
  org_id text not null,
  deployment_id text not null,
  seq bigint not null,
  id text not null,
  at timestamptz not null,
  kind text not null,
  status text not null,
  target_status text,
  robot_id text,
  reason text,
  message text not null,
  actor jsonb not null,
  data jsonb not null default '{}',
  primary key (org_id, deployment_id, seq),
  foreign key (org_id, deployment_id) references deployment (org_id, id) on delete cascade
);
create index deployment_event_own on deployment_event (org_id, deployment_id, seq) where robot_id is null;
create index deployment_event_robot on deployment_event (org_id, deployment_id, robot_id, seq) where robot_id is not null;

-- A data key of an org, with which its secrets are encrypted; itself encrypted with the server's master key, which is
-- not in the database.
create table secret_key (
  org_id text not null references org (id) on delete cascade,
  id text not null,
  master_key_id text not null,
  wrapped text not null,
  created_at timestamptz not null,
  primary key (org_id, id)
);
create index secret_key_master on secret_key (master_key_id);

-- What is true of a namespace as such. Its row is locked by whoever changes its values or its schema, so that neither
-- slips past the other.
create table config_namespace (
  org_id text not null references org (id) on delete cascade,
  namespace text not null,
  -- JSON Schema of the namespace's object; null: anything goes
  value_schema jsonb,
  schema_version integer not null default 0,
  schema_updated_by jsonb,
  schema_updated_at timestamptz,
  primary key (org_id, namespace)
);

create table config_entry (
  org_id text not null references org (id) on delete cascade,
  id text not null,
  namespace text not null,
  key text not null,
  scope text not null check (scope in ('org', 'site', 'fleet', 'robot')),
  -- '' at org scope, so that uniqueness holds
  scope_id text not null default '',
  -- JSON's null when it is a secret
  value jsonb not null,
  -- the secret, encrypted; null: none
  sealed text,
  version integer not null,
  updated_by text,
  -- the row stays for its history, and comes back when the value is set again
  removed_at timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, id),
  unique (org_id, namespace, scope, scope_id, key),
  check (sealed is null or value = 'null')
);

-- Every value that an entry ever had, and when it was removed.
create table config_version (
  org_id text not null,
  config_id text not null,
  version integer not null,
  change text not null check (change in ('set', 'removed', 'rolled_back')),
  value jsonb not null,
  sealed text,
  -- the version whose value was set again
  rollback_of integer,
  actor jsonb not null,
  at timestamptz not null,
  primary key (org_id, config_id, version),
  foreign key (org_id, config_id) references config_entry (org_id, id) on delete cascade,
  check (sealed is null or value = 'null')
);

-- The config file of a namespace that a robot is to have, frozen at dispatch, and what it reports to have.
create table robot_config (
  org_id text not null,
  robot_id text not null,
  namespace text not null,
  version integer not null default 0,
  -- the exact bytes of the file; encrypted when a secret is in it
  content text not null,
  sha256 text not null,
  -- what it was to have before the target under way
  previous_content text,
  previous_sha256 text,
  -- the robot had these bytes before the target under way
  unchanged boolean not null default false,
  reported_version integer,
  reported_sha256 text,
  target_id text,
  deployment_id text,
  attempt integer not null default 0,
  last_target_id text not null default '',
  state text not null generated always as (case
    when reported_sha256 = sha256 then 'in_sync'
    when target_id is not null or reported_version is distinct from version then 'pending'
    when reported_sha256 is not null then 'drifted'
    else 'unknown' end) stored,
  updated_at timestamptz not null,
  primary key (org_id, robot_id, namespace),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
create index robot_config_state on robot_config (org_id, state, robot_id);

-- What a robot was brought to because its fleet has it, by release or by config revision: one automatic attempt each.
create table robot_follow (
  org_id text not null,
  robot_id text not null,
  subject text not null,
  deployment_id text not null,
  created_at timestamptz not null,
  primary key (org_id, robot_id, subject),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);

create table timeline_entry (
  org_id text not null,
  robot_id text not null,
  id text not null,
  at timestamptz not null,
  kind text not null,
  actor jsonb not null,
  summary text not null,
  data jsonb not null default '{}',
  primary key (org_id, robot_id, id),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
-- What happened to all the robots, by time as their ids are
create index timeline_entry_org on timeline_entry (org_id, id);
create index timeline_entry_kind on timeline_entry (org_id, kind, id);

-- A shell that somebody opened on a robot: known before it opens, and told to have ended once. What it showed is recorded.
create table shell_session (
  org_id text not null,
  id text not null,
  robot_id text not null,
  -- of the request that opened it, as the audit names it
  request_id text not null,
  actor jsonb not null,
  ip text not null,
  app text,
  -- null: a login shell
  command jsonb,
  terminal boolean not null,
  status text not null check (status in ('open', 'ended', 'aborted')),
  exit_code integer,
  reason text,
  -- who is to tell of its end
  node_id text not null,
  node_epoch bigint not null,
  started_at timestamptz not null,
  -- null: it is open, or nobody saw its end
  ended_at timestamptz,
  output_bytes bigint not null default 0,
  recording_bytes bigint not null default 0,
  recording_dropped_at timestamptz,
  primary key (org_id, id),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
create index shell_session_robot on shell_session (org_id, robot_id, id);
create index shell_session_open on shell_session (org_id, id) where status = 'open';
create index shell_session_kept on shell_session (started_at) where recording_dropped_at is null;

-- What a shell showed: asciinema v2 in pieces, each compressed by gzip.
create table shell_recording (
  org_id text not null,
  session_id text not null,
  seq integer not null,
  bytes bytea not null,
  primary key (org_id, session_id, seq),
  foreign key (org_id, session_id) references shell_session (org_id, id) on delete cascade
);
alter table shell_recording alter column bytes set storage external;

-- Highest log record taken of a robot, within the spool that it named last.
create table log_position (
  org_id text not null,
  robot_id text not null,
  outbox_id text not null,
  seq bigint not null,
  updated_at timestamptz not null,
  primary key (org_id, robot_id),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);

-- One row per flush of a robot: records compressed together, 7 times smaller than a row each. Daily partitions are
-- made ahead by the program, and retention drops them whole.
create table log_batch (
  org_id text not null,
  robot_id text not null,
  first_seq bigint not null,
  last_seq bigint not null,
  received_at timestamptz not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  record_count integer not null,
  -- zstd or deflate of the JSON array of records, as `codec` says
  codec text not null,
  records bytea not null,
  primary key (org_id, robot_id, received_at, first_seq)
) partition by range (received_at);
create table log_batch_default partition of log_batch default;

-- What the logs of an org take, in bytes, by the time of receipt: what is over the limit goes, the oldest first. Counted in
-- memory and written each minute, so a server that is killed forgets a minute of it.
create table log_usage (
  org_id text not null references org (id) on delete cascade,
  period_at timestamptz not null,
  bytes bigint not null,
  primary key (org_id, period_at)
);

-- Every request that changes something, and every stream: who, what, from where, and how it ended. Rows are only ever
-- added. org_id is '' for acts on the service as a whole; no foreign key, so that the trail outlives what it tells of.
create table audit_entry (
  org_id text not null,
  id text not null,
  at timestamptz not null,
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
  data jsonb not null default '{}',
  primary key (org_id, id)
);
create index audit_entry_action on audit_entry (org_id, action, id);
create index audit_entry_refused on audit_entry (org_id, id) where error is not null;
create index audit_entry_object on audit_entry (org_id, object_id, id) where object_id is not null;

-- A stream that a viewer has open, with what its entry in the audit says when it ends: when the server that held it is gone,
-- the next one says so.
create table open_stream (
  org_id text not null references org (id) on delete cascade,
  id text not null,
  node_id text not null,
  node_epoch bigint not null,
  entry jsonb not null,
  opened_at timestamptz not null,
  primary key (org_id, id)
);

-- Stands in a URL for a token or a session: opens one stream of one object once, found by the SHA-256 of its secret before
-- any org is known.
create table stream_ticket (
  hash bytea primary key,
  org_id text not null references org (id) on delete cascade,
  -- what it was made with, by the hash of its secret: when that ends, so does what the ticket opened
  proof_by text not null check (proof_by in ('token', 'session')),
  proof_hash bytea not null,
  stream text not null,
  object_id text not null,
  uses integer not null,
  expires_at timestamptz not null,
  created_at timestamptz not null
);
create index stream_ticket_org on stream_ticket (org_id);
create index stream_ticket_expiry on stream_ticket (expires_at);

create table idempotency (
  org_id text not null,
  method text not null,
  route text not null,
  key text not null,
  body_hash bytea not null,
  status integer,
  -- the exact bytes answered, secrets replaced by null
  response text,
  location text,
  -- null: lives as long as the deployment it belongs to
  expires_at timestamptz,
  deployment_id text,
  created_at timestamptz not null,
  primary key (org_id, method, route, key)
);
create index idempotency_expiry on idempotency (expires_at) where expires_at is not null;

-- A server process: its epoch tells its runs apart, its beat grows as long as it lives. Whether it lives no time says: nodes' clocks differ.
create table node (
  id text primary key,
  epoch bigint not null,
  beat bigint not null,
  -- it stopped, or the others found it silent; whoever was not dead after all says so with its next beat
  is_over boolean not null,
  -- when it last said that it lives, by the database's own clock: the rows of those that are long over are deleted
  renewed_at timestamptz not null default now(),
  started_at timestamptz not null,
  -- of the program that runs, for people
  version text,
  -- where other nodes connect to this run, and the SHA-256 of the certificate that it shows them; null: it listens for none
  address text,
  tls_fingerprint text
);

-- Row-level security, the second wall behind `where org_id =`. Connections that serve one org run as pg_database_owner and
-- see the rows of the org that `app.org` names; the owner of the tables, which migrates and works across orgs, sees all.
-- A later migration says the same three lines of each table that it makes.
do $$
declare
  tenant_table text;
begin
  for tenant_table in
    select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and a.attname = 'org_id'
  loop
    execute format('alter table %I enable row level security', tenant_table);
    execute format('create policy tenant on %I using (org_id = current_setting(''app.org'', true))', tenant_table);
    execute format('grant select, insert, update, delete on %I to pg_database_owner', tenant_table);
  end loop;
end $$;
alter table org enable row level security;
create policy tenant on org using (id = current_setting('app.org', true));
grant select, insert, update, delete on org to pg_database_owner;
-- People belong to no org: their rows are found by way of membership. Nor do sessions, which go from one org of theirs to another.
grant select, insert, update, delete on user_account, web_session to pg_database_owner;
