-- Distributes the tables of a migrated database by org on Citus: one group of shards, in which all rows of an org are on one worker.
-- It was not run on Citus, and the server does not run on Citus as it is: README.md lists the obstacles. tests/deploy/citus.test.ts checks
-- this file against the catalog of a migrated PostgreSQL. Run it once with psql, on the coordinator, before the first server starts.

begin;

-- Citus refuses triggers on distributed tables unless they are declared as safe. They write to robot_label and robot_unknown of the same org.
set citus.enable_unsafe_triggers = on;

-- A reference table cannot have a foreign key to a distributed table.
alter table enrollment_key drop constraint enrollment_key_org_id_fleet_id_fkey;
alter table enrollment_key drop constraint enrollment_key_org_id_site_id_fkey;
alter table robot_key drop constraint robot_key_org_id_robot_id_fkey;

-- Tables that are read before the org is known, and those of the whole service. Every worker has a copy.
select create_reference_table('org');
select create_reference_table('user_account');
select create_reference_table('credential');
select create_reference_table('enrollment_key');
select create_reference_table('robot_key');
select create_reference_table('stream_ticket');
select create_reference_table('web_session');
select create_reference_table('node');
select create_reference_table('retention_clock');
select create_reference_table('metric_shard');

-- Tables of an org. A table follows the tables that it references.
select create_distributed_table('site', 'org_id');
select create_distributed_table('fleet', 'org_id', colocate_with => 'site');
select create_distributed_table('robot', 'org_id', colocate_with => 'site');
select create_distributed_table('alert_rule', 'org_id', colocate_with => 'site');
select create_distributed_table('alert_evaluation', 'org_id', colocate_with => 'site');
select create_distributed_table('alert_match', 'org_id', colocate_with => 'site');
select create_distributed_table('alert_mute', 'org_id', colocate_with => 'site');
select create_distributed_table('incident', 'org_id', colocate_with => 'site');
select create_distributed_table('incident_member', 'org_id', colocate_with => 'site');
select create_distributed_table('incident_entry', 'org_id', colocate_with => 'site');
select create_distributed_table('artifact', 'org_id', colocate_with => 'site');
select create_distributed_table('artifact_layer', 'org_id', colocate_with => 'site');
select create_distributed_table('release', 'org_id', colocate_with => 'site');
select create_distributed_table('artifact_upload', 'org_id', colocate_with => 'site');
select create_distributed_table('alert_channel', 'org_id', colocate_with => 'site');
select create_distributed_table('alert_delivery', 'org_id', colocate_with => 'site');
select create_distributed_table('audit_entry', 'org_id', colocate_with => 'site');
select create_distributed_table('authority_change', 'org_id', colocate_with => 'site');
select create_distributed_table('config_entry', 'org_id', colocate_with => 'site');
select create_distributed_table('config_namespace', 'org_id', colocate_with => 'site');
select create_distributed_table('config_version', 'org_id', colocate_with => 'site');
select create_distributed_table('deployment', 'org_id', colocate_with => 'site');
select create_distributed_table('deployment_due', 'org_id', colocate_with => 'site');
select create_distributed_table('deployment_event', 'org_id', colocate_with => 'site');
select create_distributed_table('deployment_target', 'org_id', colocate_with => 'site');
select create_distributed_table('deployment_wave', 'org_id', colocate_with => 'site');
select create_distributed_table('health_history', 'org_id', colocate_with => 'site');
select create_distributed_table('health_snapshot', 'org_id', colocate_with => 'site');
select create_distributed_table('idempotency', 'org_id', colocate_with => 'site');
select create_distributed_table('log_batch', 'org_id', colocate_with => 'site');
select create_distributed_table('log_position', 'org_id', colocate_with => 'site');
select create_distributed_table('metric_chunk', 'org_id', colocate_with => 'site');
select create_distributed_table('metric_rollup', 'org_id', colocate_with => 'site');
select create_distributed_table('metric_rollup_position', 'org_id', colocate_with => 'site');
select create_distributed_table('metric_position', 'org_id', colocate_with => 'site');
select create_distributed_table('metric_watch', 'org_id', colocate_with => 'site');
select create_distributed_table('metric_value', 'org_id', colocate_with => 'site');
select create_distributed_table('robot_position', 'org_id', colocate_with => 'site');
select create_distributed_table('site_floor_plan', 'org_id', colocate_with => 'site');
select create_distributed_table('saved_view', 'org_id', colocate_with => 'site');
select create_distributed_table('log_robot_usage', 'org_id', colocate_with => 'site');
select create_distributed_table('log_usage', 'org_id', colocate_with => 'site');
select create_distributed_table('membership', 'org_id', colocate_with => 'site');
select create_distributed_table('open_stream', 'org_id', colocate_with => 'site');
select create_distributed_table('robot_app', 'org_id', colocate_with => 'site');
select create_distributed_table('robot_config', 'org_id', colocate_with => 'site');
select create_distributed_table('robot_config_order', 'org_id', colocate_with => 'site');
select create_distributed_table('robot_desired', 'org_id', colocate_with => 'site');
select create_distributed_table('robot_follow', 'org_id', colocate_with => 'site');
select create_distributed_table('robot_label', 'org_id', colocate_with => 'site');
select create_distributed_table('robot_unknown', 'org_id', colocate_with => 'site');
select create_distributed_table('robot_request', 'org_id', colocate_with => 'site');
select create_distributed_table('secret_key', 'org_id', colocate_with => 'site');
select create_distributed_table('shell_session', 'org_id', colocate_with => 'site');
select create_distributed_table('shell_recording', 'org_id', colocate_with => 'site');
select create_distributed_table('signing_trust', 'org_id', colocate_with => 'site');
select create_distributed_table('timeline_entry', 'org_id', colocate_with => 'site');

commit;
