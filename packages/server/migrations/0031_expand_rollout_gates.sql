-- When a user last resumed the deployment after a gate had paused it.
alter table deployment add column gate_accepted_at timestamptz;
-- The time of the last evaluation of the org's alert rules. Null: none by a server that writes the column.
alter table alert_evaluation add column evaluated_at timestamptz;
-- The checks of the metrics of a wave's gate, as they were last measured.
alter table deployment_wave add column metric_checks jsonb;
