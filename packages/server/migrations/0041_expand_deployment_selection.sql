-- The list of a robot's deployments looks for it in each deployment to a selection. Without an index, all deployments of the org were read.
create index deployment_selection on deployment (org_id, kind, id) where target_kind = 'selection';
