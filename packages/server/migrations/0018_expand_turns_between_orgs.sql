-- Dispatch and the schedule take turns between orgs: the next org that has something to do, and what of it is due, by the index.
create index deployment_target_claim_of_org on deployment_target (org_id, deployment_id, coalesce(not_before_at, '-infinity'), id)
  where status = 'queued' and waiting_for is null;
create index deployment_due_of_org on deployment_due (org_id, coalesce(not_before_at, due_at));
