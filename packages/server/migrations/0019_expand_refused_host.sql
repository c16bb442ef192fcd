-- The latest host that a robot signed for and that this node refused, for `roamfleet doctor`.
alter table node add column refused_host text, add column refused_host_at timestamptz;
