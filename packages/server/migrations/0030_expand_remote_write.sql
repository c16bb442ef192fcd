-- Number of the chunk among all chunks of its robot, in the order in which they were stored. 0: stored before this migration.
alter table metric_chunk add column number bigint not null default 0;

-- Remote write sends chunks in this order. The position of a robot is its last sent number.
alter table metric_position
  add column last_number bigint not null default 0,
  add column sent_number bigint not null default 0,
  -- All unsent chunks begin at this time or later. Null: there are none.
  add column unsent_from timestamptz,
  -- Robots take turns: the time of the last turn, or when the first unsent chunk was stored. Null: there are none.
  add column queued_at timestamptz;
create index metric_position_queued on metric_position ((hashtext(robot_id) & 7), queued_at) where queued_at is not null;

-- A node leases a shard of the robots while it sends their chunks. Robots are assigned by hashtext(robot_id) & 7.
create table metric_shard (
  shard integer primary key check (shard between 0 and 7),
  leased_until timestamptz,
  served_at timestamptz
);

-- The deployments that ended in a period, for the report of a shift.
create index deployment_finished_of_org on deployment (org_id, finished_at)
  where finished_at is not null and (target_kind <> 'robot' or created_by ->> 'type' is distinct from 'system');
