-- Channels through which incidents are reported, and the outbox of their messages.
create table alert_channel (
  org_id text not null references org (id) on delete cascade,
  id text not null,
  name text not null,
  kind text not null check (kind in ('webhook', 'slack', 'pagerduty', 'email')),
  -- Where messages go, without secrets: the host of a URL, or email addresses.
  destination text not null,
  -- The URL and the keys, encrypted with a data key of the org.
  sealed text not null,
  -- [{"severities": ["critical"], "site_id": "…"}]; empty: all incidents.
  routes jsonb not null default '[]',
  disabled_at timestamptz,
  -- When the next message must be sent; null if none is pending.
  due_at timestamptz,
  -- Until when the node that is sending a message has the channel.
  leased_until timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, id),
  unique (org_id, name)
);
create index alert_channel_due on alert_channel (due_at) where due_at is not null;
alter table alert_channel enable row level security;
create policy tenant on alert_channel using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on alert_channel to pg_database_owner;

-- Messages to channels: pending ones are the outbox, the others are the log.
create table alert_delivery (
  org_id text not null,
  -- The same for each attempt, so that receivers can deduplicate.
  id text not null,
  channel_id text not null,
  -- Null for a test message.
  incident_id text,
  kind text not null check (kind in ('opened', 'resolved', 'test')),
  message jsonb not null,
  status text not null check (status in ('pending', 'delivered', 'failed')),
  attempts integer not null default 0,
  -- The result of the last attempt.
  detail text,
  next_attempt_at timestamptz,
  give_up_at timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (org_id, id),
  foreign key (org_id, channel_id) references alert_channel (org_id, id) on delete cascade
);
create index alert_delivery_pending on alert_delivery (org_id, channel_id, next_attempt_at) where status = 'pending';
create index alert_delivery_channel on alert_delivery (org_id, channel_id, id);
create index alert_delivery_incident on alert_delivery (org_id, incident_id) where incident_id is not null;
alter table alert_delivery enable row level security;
create policy tenant on alert_delivery using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on alert_delivery to pg_database_owner;
