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

/** The server's shared objects, which handlers and background loops receive as an argument. plane.ts creates them once. */
export interface Plane extends KernelPlane {
  db: DbEngine;
  bus: Bus;
  blobs: Blobs;
  /** The robots that are connected to this node. */
  link: Link;
  /** Clock for deleting old rows. All other code uses `clock`. */
  retention_clock: Pick<RetentionClock, "now" | "behind_ms" | "start">;
  metrics: Metrics;
  settings: Settings;
  /** Aborted when the shutdown begins. The server still handles requests during the drain time (`drain_seconds`). */
  stopping: AbortSignal;
  /** Undefined if the server uses plain HTTP, on loopback or behind a proxy. */
  tls: Tls | undefined;
  /** The host names for which the server accepts robots' signatures. */
  hosts: HostNames;
  /** Id of this node, and epoch of its current run. Presence rows store both, to distinguish this run from earlier ones. */
  node: { id: string; epoch: number };
}
