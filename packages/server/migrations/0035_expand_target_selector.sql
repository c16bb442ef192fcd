-- Which robots a deployment selects when it starts: site, fleet, labels, ids. Servers of the previous version find neither a robot nor a
-- fleet, and so start no such deployment.
alter table deployment add column target_selector jsonb;
-- The selected robots whose targets are not written yet. Null: none.
alter table deployment add column fan_out_robots text[];
-- Not validated, because reading all deployments would block them. Their kinds passed the narrower check.
alter table deployment drop constraint deployment_target_kind_check;
alter table deployment add constraint deployment_target_kind_check check (target_kind in ('robot', 'fleet', 'selection')) not valid;
