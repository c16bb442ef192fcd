-- The order of versions of values and of config deployments, which does not depend on clocks. Null: older than any deployment with waves.
alter table config_version add column order_number bigint;
alter table config_version alter column order_number set default nextval('order_number');
