-- The checks cost two fifths of inserting an event. Events are written by transactions that lock their deployment, timeline entries by
-- those that read their robot. Retention deletes events before their deployment. Robots are not deleted.
-- Servers of the previous version may be running. Locks in the order of their transactions, since dropping the constraints alone would lock
-- in the opposite order and deadlock with them.
lock table deployment, robot, robot_app, deployment_event, timeline_entry in access exclusive mode;
alter table deployment_event drop constraint deployment_event_org_id_deployment_id_fkey;
alter table timeline_entry drop constraint timeline_entry_org_id_robot_id_fkey;
-- No query finds robots by the desired release alone.
drop index robot_app_desired;
