-- The order of deployments, of robots joining a fleet and of automatic attempts. Ids and times come from the clocks of the
-- servers, which may disagree; this sequence is the one source that all of them share.
create sequence order_number;
grant usage on sequence order_number to pg_database_owner;

-- Drawn when the deployment is created, and again when a scheduled one starts.
alter table deployment add column order_number bigint;
-- Drawn when the robot enrolls or moves to another fleet.
alter table robot add column fleet_order_number bigint;
-- Drawn when the automatic attempt is made.
alter table robot_follow add column order_number bigint;

-- What exists is numbered by its time, which is the best that is known of it.
create temporary table numbered on commit drop as
  select kind, org_id, id, subject, nextval('order_number') as order_number
  from (
    select 'deployment' as kind, org_id, id, '' as subject, coalesce(fan_out_at, created_at) as at from deployment
    union all select 'robot', org_id, id, '', coalesce(fleet_since, created_at) from robot
    union all select 'follow', org_id, robot_id, subject, created_at from robot_follow
    order by at, id
  ) as existing;
update deployment d set order_number = n.order_number from numbered n where n.kind = 'deployment' and n.org_id = d.org_id and n.id = d.id;
update robot r set fleet_order_number = n.order_number from numbered n where n.kind = 'robot' and n.org_id = r.org_id and n.id = r.id;
update robot_follow f set order_number = n.order_number from numbered n where n.kind = 'follow' and n.org_id = f.org_id and n.id = f.robot_id and n.subject = f.subject;

alter table deployment alter column order_number set default nextval('order_number'), alter column order_number set not null;
alter table robot alter column fleet_order_number set default nextval('order_number'), alter column fleet_order_number set not null;
alter table robot_follow alter column order_number set default nextval('order_number'), alter column order_number set not null;

-- The highest number that was dispatched to the robot for the app.
alter table robot_app add column last_order_number bigint not null default 0;
update robot_app a set last_order_number = d.order_number
  from deployment_target t join deployment d on d.org_id = t.org_id and d.id = t.deployment_id
  where t.org_id = a.org_id and t.id = a.last_target_id;

-- The highest number that was dispatched to the robot for a namespace; '' for deployments of all namespaces. Kept apart from
-- robot_config, whose row is deleted when the first config of a namespace is reverted.
create table robot_config_order (
  org_id text not null,
  robot_id text not null,
  namespace text not null,
  last_order_number bigint not null,
  primary key (org_id, robot_id, namespace),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
alter table robot_config_order enable row level security;
create policy tenant on robot_config_order using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on robot_config_order to pg_database_owner;
insert into robot_config_order (org_id, robot_id, namespace, last_order_number)
  select c.org_id, c.robot_id, c.namespace, d.order_number
  from robot_config c join deployment_target t on t.org_id = c.org_id and t.id = c.last_target_id
  join deployment d on d.org_id = t.org_id and d.id = t.deployment_id;
