-- The last known time, one row. A clock that is ahead of it deletes nothing by age until the new time has held for a day.
create table retention_clock (
  id int primary key check (id = 1),
  -- the last reading of the clock
  seen_at timestamptz not null,
  -- forward jumps that have not held for a day, oldest first: [{ahead_ms, held_ms}]
  jumps jsonb not null default '[]'
);
-- A database of an earlier version: the newest row is that of the server that ran last.
insert into retention_clock (id, seen_at)
select 1, newest.at from (
  select greatest((select max(renewed_at) from node), (select max(period_at) from log_usage)) as at
) newest where newest.at is not null;
