/**
 * Folder below packages/server/src whose SQL may touch the table. Every table has exactly one. Another folder may read it
 * in a statement that says so, `-- reads: robot, fleet`, and never write it.
 */
export const TABLE_OWNERS: Readonly<Record<string, string>> = {
  org: "features/orgs",
  user_account: "features/users",
  membership: "features/users",
  credential: "features/tokens",
  web_session: "features/tokens",
  site: "features/sites",
  fleet: "features/fleets",
  robot: "features/robots",
  robot_key: "features/enrollment",
  enrollment_key: "features/enrollment",
  release: "features/releases",
  signing_trust: "features/signing",
  artifact: "features/releases",
  artifact_upload: "features/releases",
  deployment: "features/deployments",
  deployment_wave: "features/deployments",
  deployment_due: "features/deployments",
  deployment_target: "features/deployments",
  deployment_event: "features/deployments",
  robot_app: "features/deployments",
  robot_desired: "features/deployments",
  robot_follow: "features/deployments",
  secret_key: "features/configs",
  config_namespace: "features/configs",
  config_entry: "features/configs",
  config_version: "features/configs",
  robot_config: "features/deployments",
  health_snapshot: "features/health",
  timeline_entry: "features/timeline",
  log_batch: "features/logs",
  log_batch_default: "features/logs",
  log_position: "features/logs",
  idempotency: "kernel",
  audit_entry: "kernel",
  open_stream: "features/streams",
  node: "link",
};

/** Tables looked up before an org is known, or across orgs: statements on these alone need no org_id. */
export const WITHOUT_ORG: ReadonlySet<string> = new Set([
  "org",
  "user_account",
  "membership",
  "credential",
  "web_session",
  "robot_key",
  "deployment_due",
  "node",
]);
