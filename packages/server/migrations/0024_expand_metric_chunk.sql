-- The last stored chunk of samples of each robot, within the robot's current spool.
create table metric_position (
  org_id text not null,
  robot_id text not null,
  outbox_id text not null,
  seq bigint not null,
  -- Samples that exceeded a bound and were not stored, since the first chunk.
  dropped_samples bigint not null default 0,
  primary key (org_id, robot_id),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
alter table metric_position enable row level security;
create policy tenant on metric_position using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on metric_position to pg_database_owner;

-- One row for each flush of a robot, with all of its series. Partitions by day are created and dropped by the program.
create table metric_chunk (
  org_id text not null,
  robot_id text not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  seq bigint not null,
  chunk bytea not null,
  primary key (org_id, robot_id, first_at, seq)
) partition by range (first_at);
create table metric_chunk_default partition of metric_chunk default;
alter table metric_chunk enable row level security;
create policy tenant on metric_chunk using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on metric_chunk to pg_database_owner;
