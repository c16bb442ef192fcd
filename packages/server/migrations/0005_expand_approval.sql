-- Robots that enroll by a key without trust get no secrets until an admin approves them. Null: approved, as all robots are that
-- enrolled before.
alter table robot add column approval_requested_at timestamptz;

-- Only an admin of the whole org marks a key as trusted. Of the keys that exist, those are that such an admin or the server made.
alter table enrollment_key add column trusted boolean not null default false;
update enrollment_key k set trusted = true
where k.created_by is null
  or (k.created_by ->> 'type' = 'org_token' and exists (
    select from credential c where c.id = k.created_by ->> 'id' and c.org_id = k.org_id and c.role = 'admin' and c.scopes = '[]'))
  or (k.created_by ->> 'type' = 'user' and exists (
    select from membership m where m.user_id = k.created_by ->> 'id' and m.org_id = k.org_id and m.role = 'admin' and m.scopes = '[]'));

-- A target of a config deployment waits for its robot's approval while its files hold secrets.
alter table deployment_target drop constraint deployment_target_waiting_for_check;
alter table deployment_target add constraint deployment_target_waiting_for_check
  check (waiting_for in ('robot_online', 'slot', 'window', 'artifact', 'previous_deployment', 'gate', 'robot', 'approval')) not valid;

-- A person's name belongs to the membership: what one org calls a person is not shown in another. Null, which only servers of the
-- version before write: the address is shown.
alter table membership add column name text;
update membership m set name = u.name from user_account u where u.id = m.user_id;

create index robot_awaiting_approval on robot (org_id, id) where approval_requested_at is not null;
