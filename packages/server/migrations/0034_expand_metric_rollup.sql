-- Samples of one series and day, reduced to intervals. Partitions by day are created and dropped by the program.
create table metric_rollup (
  org_id text not null,
  name text not null,
  -- Length of an interval. Intervals of an hour are read for all robots of a fleet, so they must not be among those of 5 minutes.
  step_seconds integer not null,
  -- The start of the day in UTC.
  day timestamptz not null,
  robot_id text not null,
  labels jsonb not null,
  intervals bytea not null,
  primary key (org_id, name, step_seconds, day, robot_id, labels)
) partition by range (day);
create index metric_rollup_robot on metric_rollup (org_id, robot_id, day);
create table metric_rollup_default partition of metric_rollup default;
alter table metric_rollup enable row level security;
create policy tenant on metric_rollup using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on metric_rollup to pg_database_owner;

-- The chunks of a robot whose samples are in its rollups: those up to a number. Absent: none.
create table metric_rollup_position (
  org_id text not null,
  robot_id text not null,
  number bigint not null default 0,
  -- When the last of these chunks begins. Later chunks rarely begin before it.
  chunk_from timestamptz,
  updated_at timestamptz not null,
  primary key (org_id, robot_id),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
alter table metric_rollup_position enable row level security;
create policy tenant on metric_rollup_position using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on metric_rollup_position to pg_database_owner;
