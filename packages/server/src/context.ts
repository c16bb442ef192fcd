import type { Bus } from "./engines/bus/index.ts";
import type { Blobs } from "./engines/blobs/index.ts";
import type { DbEngine } from "./engines/db/index.ts";
import type { KernelPlane } from "./kernel/kernel-plane.ts";
import type { HostNames } from "./kernel/host-names.ts";
import type { RetentionClock } from "./kernel/retention-clock.ts";
import type { Metrics } from "./kernel/metrics.ts";
import type { Tls } from "./kernel/tls/index.ts";
import type { Link } from "./link/index.ts";
import type { Settings } from "./config.ts";

/** Everything that a handler or a background loop may use. Made once, in plane.ts, and passed as an argument. */
export interface Plane extends KernelPlane {
  db: DbEngine;
  bus: Bus;
  blobs: Blobs;
  /** The robots whose link this node holds. */
  link: Link;
  /** The time by which rows and files are old enough to delete; everything else uses `clock`. */
  retention_clock: RetentionClock;
  metrics: Metrics;
  settings: Settings;
  /** Aborted once the server was told to stop; it serves on for a while. */
  stopping: AbortSignal;
  /** Undefined when the server speaks plain, on loopback or behind a proxy. */
  tls: Tls | undefined;
  /** What robots may sign for. */
  hosts: HostNames;
  /** This run of this process: presence rows carry both, so that those of a dead run are told apart. */
  node: { id: string; epoch: number };
}
