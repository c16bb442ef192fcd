import type { Plane } from "./context.ts";
import { startDeploymentEngine } from "./features/deployments/index.ts";
import { startHealthHistory } from "./features/health/index.ts";
import { startLogRetention } from "./features/logs/index.ts";
import { startBlobSweep } from "./features/releases/index.ts";
import { flushSeen, startSuspensionWatch } from "./features/robots/index.ts";
import { startRecordingRetention } from "./features/shells/index.ts";
import { type Streams } from "./features/streams/index.ts";
import { sweepSessions } from "./features/tokens/index.ts";
import { background } from "./kernel/background.ts";
import { deleteExpiredKeys } from "./kernel/idempotency.ts";
import { type LeaseWatch, watchNodes } from "./watch-nodes.ts";

const SEEN_FLUSH_EVERY_MS = 15_000;
const KEY_SWEEP_EVERY_MS = 600_000;
const SESSION_SWEEP_EVERY_MS = 3_600_000;

/** Starts the background loops of every feature. The caller stops them. */
export async function startLoops(plane: Plane, streams: Streams, watch: LeaseWatch): Promise<{ stop(): Promise<void> }[]> {
  const nodes = await watchNodes(plane, streams, watch);
  const seen = background(plane, "last seen", SEEN_FLUSH_EVERY_MS, () => flushSeen(plane, plane.link.takeSeen()));
  const keys = background(
    plane,
    "idempotency keys",
    KEY_SWEEP_EVERY_MS,
    async () => void (await deleteExpiredKeys(plane.db, plane.retention_clock.now())),
  );
  const sessions = background(plane, "sessions", SESSION_SWEEP_EVERY_MS, async () => void (await sweepSessions(plane)));
  return [
    ...nodes,
    seen,
    keys,
    sessions,
    plane.retention_clock.start(),
    startSuspensionWatch(plane),
    await startLogRetention(plane),
    startRecordingRetention(plane),
    await startHealthHistory(plane),
    startBlobSweep(plane),
    startDeploymentEngine(plane),
  ];
}
