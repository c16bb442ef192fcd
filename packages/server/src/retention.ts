import type { Plane } from "./context.ts";
import { dropDeploymentEvents, dropDeployments } from "./features/deployments/index.ts";
import { startHealthHistory } from "./features/health/index.ts";
import { startLogRetention } from "./features/logs/index.ts";
import { dropPendingOrgs } from "./features/orgs/index.ts";
import { sweepNonces } from "./features/robots/index.ts";
import { startShellRetention } from "./features/shells/index.ts";
import { dropTimelineEntries } from "./features/timeline/index.ts";
import { sweepSessions } from "./features/tokens/index.ts";
import { dropAuditEntries } from "./kernel/audit-retention.ts";
import { background } from "./kernel/background.ts";
import { deleteExpiredKeys } from "./kernel/idempotency.ts";
import { deleteIsolated, startRetention } from "./kernel/retention.ts";

const KEY_SWEEP_EVERY_MS = 600_000;
const NONCE_SWEEP_EVERY_MS = 60_000;
const SESSION_SWEEP_EVERY_MS = 3_600_000;

/** Starts the loops that delete expired data. */
export async function startRetentionLoops(plane: Plane): Promise<{ stop(): Promise<void> }[]> {
  const { db, retention_clock, settings } = plane;
  const { timeline_retention_days, audit_retention_days, deployment_event_retention_days, deployment_retention_days, pending_org_days } =
    settings.limits;
  return [
    background(
      plane,
      "idempotency keys",
      KEY_SWEEP_EVERY_MS,
      async () =>
        void (await deleteIsolated(plane.db_errors.isOutage, (limit, offset) =>
          deleteExpiredKeys(db, retention_clock.now(), limit, offset),
        )),
    ),
    background(plane, "request nonces", NONCE_SWEEP_EVERY_MS, async () => void (await sweepNonces(plane))),
    background(plane, "sessions", SESSION_SWEEP_EVERY_MS, async () => void (await sweepSessions(plane))),
    startRetention(plane, "timeline", timeline_retention_days, (before) => dropTimelineEntries(plane, before)),
    startRetention(plane, "audit", audit_retention_days, (before) => dropAuditEntries(plane, before)),
    startRetention(plane, "deployment events", deployment_event_retention_days, (before) => dropDeploymentEvents(plane, before)),
    startRetention(plane, "deployments", deployment_retention_days, (before) => dropDeployments(plane, before)),
    startRetention(plane, "pending orgs", pending_org_days, (before) => dropPendingOrgs(db, before)),
    await startLogRetention(plane),
    startShellRetention(plane),
    await startHealthHistory(plane),
  ];
}
