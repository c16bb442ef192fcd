-- The last position of each robot that reports one, from the metrics whose names start with position_.
create table robot_position (
  org_id text not null,
  robot_id text not null,
  -- The time of the newest sample.
  at timestamptz not null,
  -- Geographic coordinates. Null: the robot reports none.
  latitude_degrees double precision,
  longitude_degrees double precision,
  -- Coordinates on the floor plan of the robot's site. Null: the robot reports none.
  x_meters double precision,
  y_meters double precision,
  heading_degrees double precision,
  primary key (org_id, robot_id),
  foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade,
  check ((latitude_degrees is null) = (longitude_degrees is null)),
  check ((x_meters is null) = (y_meters is null)),
  check (latitude_degrees is not null or x_meters is not null)
);
alter table robot_position enable row level security;
create policy tenant on robot_position using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on robot_position to pg_database_owner;

-- The floor plan of a site: an image of at most 705,000 bytes.
create table site_floor_plan (
  org_id text not null,
  site_id text not null,
  content_type text not null check (content_type in ('image/png', 'image/jpeg', 'image/webp')),
  image bytea not null,
  meters_per_pixel double precision not null,
  -- Coordinates of the lower left corner.
  origin_x_meters double precision not null,
  origin_y_meters double precision not null,
  updated_at timestamptz not null,
  primary key (org_id, site_id),
  foreign key (org_id, site_id) references site (org_id, id) on delete cascade
);
alter table site_floor_plan enable row level security;
create policy tenant on site_floor_plan using (org_id = current_setting('app.org', true));
grant select, insert, update, delete on site_floor_plan to pg_database_owner;
