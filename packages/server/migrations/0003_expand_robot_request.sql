-- Nonces of robots' signed requests: each is accepted once. Unlogged: they matter for ten minutes, and each request writes one.
create unlogged table robot_request (
  org_id text not null,
  robot_id text not null,
  nonce text not null,
  expires_at timestamptz not null,
  primary key (org_id, robot_id, nonce)
);
create index robot_request_expiry on robot_request (expires_at);
alter table robot_request enable row level security;
create policy tenant on robot_request using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on robot_request to pg_database_owner;
