-- Robots by label. An index on robot.labels cannot find them: its operator is not leakproof, so row-level security tests each row first.
create table robot_label (
  org_id text not null,
  key text not null,
  value text not null,
  robot_id text not null,
  primary key (org_id, key, value, robot_id),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade
);
create index robot_label_robot on robot_label (org_id, robot_id);
alter table robot_label enable row level security;
create policy tenant on robot_label using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on robot_label to pg_database_owner;

-- A trigger, because servers of the previous version, which do not know the table, may be running.
create function write_robot_labels() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' then
    delete from robot_label where org_id = new.org_id and robot_id = new.id;
  end if;
  insert into robot_label (org_id, key, value, robot_id)
    select new.org_id, l.key, l.value, new.id from jsonb_each_text(new.labels) l;
  return null;
end $$;
create trigger robot_labels_inserted after insert on robot for each row when (new.labels <> '{}') execute function write_robot_labels();
create trigger robot_labels_updated after update of labels on robot for each row when (old.labels is distinct from new.labels)
  execute function write_robot_labels();

insert into robot_label (org_id, key, value, robot_id)
  select r.org_id, l.key, l.value, r.id from robot r cross join lateral jsonb_each_text(r.labels) l;

-- No query could use it.
drop index robot_labels;
