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

-- Days of robots with chunks that are not in a rollup yet.
create table metric_rollup_due (
  org_id text not null,
  robot_id text not null,
  day timestamptz not null,
  marked_at timestamptz not null,
  primary key (org_id, robot_id, day),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
create index metric_rollup_due_marked on metric_rollup_due (marked_at);
alter table metric_rollup_due enable row level security;
create policy tenant on metric_rollup_due using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on metric_rollup_due to pg_database_owner;

-- Chunks that servers of the previous version stored.
insert into metric_rollup_due (org_id, robot_id, day, marked_at)
  select distinct c.org_id, c.robot_id, date_trunc('day', t.at, 'UTC'), now()
  from metric_chunk c cross join lateral (values (c.first_at), (c.last_at)) t (at)
  where exists (select from robot r where r.org_id = c.org_id and r.id = c.robot_id);
