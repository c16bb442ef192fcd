-- Robots without health, a release or a config. Searched as "robots without a row", they would be compared one by one. A trigger replaces the
-- foreign key: its check would cost an enrollment more than the three rows themselves.
create table robot_unknown (
  org_id text not null,
  state text not null check (state in ('health', 'release', 'config')),
  robot_id text not null,
  primary key (org_id, state, robot_id)
);
alter table robot_unknown enable row level security;
create policy tenant on robot_unknown using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on robot_unknown to pg_database_owner;

-- Triggers, because servers of the previous version, which do not know the table, may be running.
create function insert_unknown_robots() returns trigger language plpgsql as $$
begin
  insert into robot_unknown (org_id, state, robot_id)
    select r.org_id, s.state, r.id from inserted r cross join (values ('health'), ('release'), ('config')) s (state);
  return null;
end $$;
create trigger robots_unknown after insert on robot referencing new table as inserted for each statement execute function insert_unknown_robots();

create function delete_unknown_robots() returns trigger language plpgsql as $$
begin
  delete from robot_unknown u using deleted d where u.org_id = d.org_id and u.state in ('health', 'release', 'config') and u.robot_id = d.id;
  return null;
end $$;
create trigger robots_gone after delete on robot referencing old table as deleted for each statement execute function delete_unknown_robots();

create function delete_unknown_robot() returns trigger language plpgsql as $$
begin
  delete from robot_unknown where org_id = new.org_id and state = tg_argv[0] and robot_id = new.robot_id;
  return null;
end $$;

-- The lock serializes transactions that each change another row of the robot: without it, each would see the other's old row. Most callers
-- have it already. The statement after it sees what was committed meanwhile. A robot that is being deleted has no row any more.
create function insert_unknown_robot() returns trigger language plpgsql as $$
begin
  perform from robot_desired where org_id = old.org_id and robot_id = old.robot_id for update;
  execute format('insert into robot_unknown (org_id, state, robot_id)
    select r.org_id, $1, r.id from robot r where r.org_id = $2 and r.id = $3
      and not exists (select from %I k where k.org_id = r.org_id and k.robot_id = r.id and k.state <> ''unknown'')
    on conflict do nothing', tg_table_name) using tg_argv[0], old.org_id, old.robot_id;
  return null;
end $$;

create trigger health_known after insert on health_snapshot for each row execute function delete_unknown_robot('health');
create trigger health_unknown after delete on health_snapshot for each row execute function insert_unknown_robot('health');
create trigger release_inserted after insert on robot_app for each row when (new.state <> 'unknown') execute function delete_unknown_robot('release');
create trigger release_known after update on robot_app for each row when (old.state = 'unknown' and new.state <> 'unknown')
  execute function delete_unknown_robot('release');
create trigger release_unknown after update on robot_app for each row when (old.state <> 'unknown' and new.state = 'unknown')
  execute function insert_unknown_robot('release');
create trigger release_deleted after delete on robot_app for each row when (old.state <> 'unknown') execute function insert_unknown_robot('release');
create trigger config_inserted after insert on robot_config for each row when (new.state <> 'unknown') execute function delete_unknown_robot('config');
create trigger config_known after update on robot_config for each row when (old.state = 'unknown' and new.state <> 'unknown')
  execute function delete_unknown_robot('config');
create trigger config_unknown after update on robot_config for each row when (old.state <> 'unknown' and new.state = 'unknown')
  execute function insert_unknown_robot('config');
create trigger config_deleted after delete on robot_config for each row when (old.state <> 'unknown') execute function insert_unknown_robot('config');

insert into robot_unknown (org_id, state, robot_id)
  select r.org_id, 'health', r.id from robot r
    where not exists (select from health_snapshot k where k.org_id = r.org_id and k.robot_id = r.id)
  union all select r.org_id, 'release', r.id from robot r
    where not exists (select from robot_app k where k.org_id = r.org_id and k.robot_id = r.id and k.state <> 'unknown')
  union all select r.org_id, 'config', r.id from robot r
    where not exists (select from robot_config k where k.org_id = r.org_id and k.robot_id = r.id and k.state <> 'unknown');
