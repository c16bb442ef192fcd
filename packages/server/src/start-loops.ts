import type { Plane } from "./context.ts";
import { startDeploymentEngine } from "./features/deployments/index.ts";
import { startOperationSamples } from "./features/operation/index.ts";
import { startBlobSweep, startUploadExpiry } from "./features/releases/index.ts";
import { flushSeen, startSuspensionWatch } from "./features/robots/index.ts";
import { type Streams } from "./features/streams/index.ts";
import { background } from "./kernel/background.ts";
import { startRetentionLoops } from "./retention.ts";
import { type LeaseWatch, watchNodes } from "./watch-nodes.ts";

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
  ];
}
