-- Saved filters of a page of the dashboard. A view belongs to a user or a token, or is shared with the org.
create table saved_view (
  org_id text not null references org (id) on delete cascade,
  id text not null,
  page text not null check (page in ('robots', 'fleets', 'sites', 'deployments', 'releases', 'incidents', 'logs', 'metrics', 'audit')),
  name text not null,
  -- The query of the page's URL. Only the dashboard interprets it.
  query text not null,
  -- The user or token that the view belongs to. Null: it is shared with the org.
  owner_id text,
  created_by jsonb not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, id),
  unique (org_id, owner_id, page, name)
);
create unique index saved_view_shared on saved_view (org_id, page, name) where owner_id is null;
alter table saved_view enable row level security;
create policy tenant on saved_view using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on saved_view to pg_database_owner;
