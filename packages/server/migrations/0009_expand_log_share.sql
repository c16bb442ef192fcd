-- What each robot's logs take, by day: when its org has too many, the robots with the most lose their oldest.
create table log_robot_usage (
  org_id text not null references org (id) on delete cascade,
  robot_id text not null,
  day timestamptz not null,
  bytes bigint not null,
  primary key (org_id, robot_id, day)
);
alter table log_robot_usage enable row level security;
create policy tenant on log_robot_usage using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on log_robot_usage to pg_database_owner;

create index shell_session_actor on shell_session (org_id, (actor ->> 'id'), id);
create index shell_session_status on shell_session (org_id, status, id);
