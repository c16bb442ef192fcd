-- Robots by the state of any of their apps, in the order of their ids. robot_app_state has the app before the state.
create index robot_app_any_state on robot_app (org_id, state, robot_id);
