import type { Plane } from "./context.ts";
import { dropDeliveries, dropIncidents, startAlerts, startSender } from "./features/alerts/index.ts";
import { dropDeploymentEvents, dropDeployments, startDeploymentEngine } from "./features/deployments/index.ts";
import { startHealthHistory } from "./features/health/index.ts";
import { startLogRetention } from "./features/logs/index.ts";
import { startMetricRetention, startRemoteWrite, startRollups } from "./features/metrics/index.ts";
import { startOperationSamples } from "./features/operation/index.ts";
import { dropPendingOrgs } from "./features/orgs/index.ts";
import { startBlobSweep, startUploadExpiry } from "./features/releases/index.ts";
import { compareLinks, flushSeen, startSuspensionWatch, sweepDeadNodes, sweepNonces } from "./features/robots/index.ts";
import { startShellRetention } from "./features/shells/index.ts";
import type { Streams } from "./features/streams/index.ts";
import { dropTimelineEntries } from "./features/timeline/index.ts";
import { sweepSessions } from "./features/tokens/index.ts";
import { dropAuditEntries } from "./kernel/audit.ts";
import { background } from "./kernel/background.ts";
import { deleteExpiredKeys } from "./kernel/idempotency.ts";
import { isolateEach } from "./kernel/isolate-failures.ts";
import { deleteIsolated, startRetention } from "./kernel/retention.ts";
import { deleteLongOver, type Lease } from "./link/index.ts";

const KEY_SWEEP_EVERY_MS = 600_000;
const NONCE_SWEEP_EVERY_MS = 60_000;
const SESSION_SWEEP_EVERY_MS = 3_600_000;

/** Starts the loops that delete expired data. */
export async function startRetentionLoops(plane: Plane): Promise<{ stop(): Promise<void> }[]> {
  const { db, retention_clock, settings } = plane;
  const { timeline_retention_days, audit_retention_days, deployment_event_retention_days, deployment_retention_days } = settings.limits;
  const { incident_retention_days, pending_org_days } = settings.limits;
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
    startRetention(plane, "alert deliveries", settings.limits.alert_delivery_retention_days, (before) => dropDeliveries(plane, before)),
    startRetention(plane, "incidents", incident_retention_days, (before) => dropIncidents(plane, before)),
    startRetention(plane, "pending orgs", pending_org_days, (before) => dropPendingOrgs(db, before)),
    await startLogRetention(plane),
    startShellRetention(plane),
    await startHealthHistory(plane),
    await startMetricRetention(plane),
    startRollups(plane),
  ];
}

const DEAD_SWEEP_EVERY_MS = 5_000;
/** How often the node's links are reconciled with the database, because hints on the bus may be lost. */
const LINKS_COMPARED_EVERY_MS = 15_000;

interface LeaseWatch {
  lease: Lease;
  fail: (why: string) => void;
}

/** Starts the loops that concern other nodes: lease renewal, sweeps after dead nodes, and reconciliation of links with the database. */
async function watchNodes(plane: Plane, streams: Streams, { lease, fail }: LeaseWatch): Promise<{ stop(): Promise<void> }[]> {
  const parts = [() => sweepDeadNodes(plane), () => streams.sweep(), () => deleteLongOver(plane.db)];
  const sweep = async (): Promise<void> => {
    const failures = await isolateEach(parts, plane.db_errors.isOutage, (part) => part());
    if (failures !== undefined) throw failures.error;
  };
  const dead = background(plane, "dead nodes", DEAD_SWEEP_EVERY_MS, sweep);
  dead.wake();
  await dead.settled();
  const links = background(plane, "links", LINKS_COMPARED_EVERY_MS, () => compareLinks(plane));
  const unsubscribe = plane.bus.onGap(() => links.wake());
  const kept = lease.keep({
    bus: plane.bus,
    changed: () => {
      dead.wake();
      links.wake();
    },
    cutOff: () => plane.link.sendAway(plane.link.sessions(), "the server is isolated from the others"),
    superseded: fail,
  });
  return [kept, dead, links, { stop: async () => unsubscribe() }];
}

const SEEN_FLUSH_EVERY_MS = 15_000;

/** Starts the background loops of every feature. The caller stops them. */
export async function startLoops(plane: Plane, streams: Streams, watch: LeaseWatch): Promise<{ stop(): Promise<void> }[]> {
  const nodes = await watchNodes(plane, streams, watch);
  const seen = background(plane, "last seen", SEEN_FLUSH_EVERY_MS, () => flushSeen(plane, plane.link.takeSeen()));
  return [
    ...nodes,
    seen,
    plane.retention_clock.start(),
    startSuspensionWatch(plane),
    ...(await startRetentionLoops(plane)),
    startOperationSamples(plane),
    startBlobSweep(plane),
    startUploadExpiry(plane),
    startDeploymentEngine(plane),
    startAlerts(plane),
    startSender(plane),
    ...startRemoteWrite(plane),
  ];
}
