-- When a user last resumed the deployment after a gate had paused it.
alter table deployment add column gate_accepted_at timestamptz;
-- The time of the last complete evaluation of the org's alert rules. Null: none by a server that writes the column, or one is incomplete.
alter table alert_evaluation add column evaluated_at timestamptz;
-- The checks of the metrics of a wave's gate, as they were last measured.
alter table deployment_wave add column metric_checks jsonb;

-- Metrics that alert rules of an org use. `key` is a digest of the metric, its labels and the minutes.
create table metric_watch (
  org_id text not null references org (id) on delete cascade,
  key text not null,
  metric text not null,
  labels jsonb not null,
  minutes integer not null,
  since_at timestamptz not null,
  primary key (org_id, key)
);
alter table metric_watch enable row level security;
create policy tenant on metric_watch using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on metric_watch to pg_database_owner;

-- The values of a robot for a watch, over the minutes until its newest sample: of several series the highest and lowest mean, and the highest
-- rise per second. Null: too few samples.
create table metric_value (
  org_id text not null,
  key text not null,
  robot_id text not null,
  at timestamptz not null,
  mean_max double precision not null,
  mean_min double precision not null,
  rate_max double precision,
  primary key (org_id, key, robot_id),
  foreign key (org_id, key) references metric_watch (org_id, key) on delete cascade,
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
create index metric_value_robot on metric_value (org_id, robot_id);
alter table metric_value enable row level security;
create policy tenant on metric_value using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on metric_value to pg_database_owner;
