import type { Bus } from "./engines/bus/index.ts";
import type { Blobs } from "./engines/blobs/index.ts";
import type { DbEngine } from "./engines/db/index.ts";
import type { KernelPlane } from "./kernel/kernel-plane.ts";
import type { HostNames } from "./kernel/host-names.ts";
import type { RetentionClock } from "./kernel/retention-clock.ts";
import type { Metrics } from "./kernel/metrics.ts";
import type { Tls } from "./kernel/tls/tls.ts";
import type { Link } from "./link/index.ts";
import type { Settings } from "./config.ts";

/** Everything that handlers and background loops may use. Created once, in plane.ts, and passed as an argument. */
export interface Plane extends KernelPlane {
  db: DbEngine;
  bus: Bus;
  blobs: Blobs;
  /** The robots that are connected to this node. */
  link: Link;
  /** The clock for deletions by age. Everything else uses `clock`. */
  retention_clock: Pick<RetentionClock, "now" | "behind_ms" | "start">;
  metrics: Metrics;
  settings: Settings;
  /** Aborted when the server starts to shut down. It continues to serve for a while. */
  stopping: AbortSignal;
  /** Undefined if the server uses plain HTTP, on loopback or behind a proxy. */
  tls: Tls | undefined;
  /** The host names that robots' signatures may contain. */
  hosts: HostNames;
  /** This run of this process. Presence rows have both values, to distinguish those of dead runs. */
  node: { id: string; epoch: number };
}
