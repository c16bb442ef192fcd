import { idSource } from "@roamfleet/clock";
import { readSettings } from "../../config.ts";
import type { Plane } from "../../context.ts";
import type { Blobs } from "../../engines/blobs/index.ts";
import { localBus } from "../../engines/bus/index.ts";
import { isConnectionLost, isDiskFull, isOutage, isTimeout, isUniqueViolation } from "../../engines/db/index.ts";
import { HostNames } from "../../kernel/host-names.ts";
import { PlaneState } from "../../kernel/kernel-plane.ts";
import { createLog } from "../../kernel/log.ts";
import { MasterKeys } from "../../kernel/master-keys.ts";
import { createMetrics } from "../../kernel/metrics.ts";
import { Networks } from "../../kernel/networks.ts";
import { AddressRateLimit, RateLimit } from "../../kernel/rate-limit.ts";
import type { Link, Session } from "../../link/index.ts";
import { findPlaces } from "../access/index.ts";

const missing = (what: string) => (): never => {
  throw new Error(`this test has no ${what}`);
};
const noArtifacts = missing("artifacts");
const NO_BLOBS: Blobs = {
  receive: noArtifacts,
  append: noArtifacts,
  uploaded: noArtifacts,
  complete: noArtifacts,
  abandon: noArtifacts,
  listUploads: noArtifacts,
  read: noArtifacts,
  stat: noArtifacts,
  delete: noArtifacts,
  list: noArtifacts,
  freeBytes: () => Promise.resolve(1e12),
  close: () => Promise.resolve(),
};

/** Returns a fake endpoint for robots to which exactly these sessions are connected. */
export const linkOf = (sessions: ReadonlyMap<string, Session>): Link => ({
  session: (robot_id) => sessions.get(robot_id),
  sessions: () => sessions.values(),
  send: (robot_id, message) => sessions.get(robot_id)?.send(message) ?? false,
  get count() {
    return sessions.size;
  },
  takeSeen: () => new Map(),
  sendAway: (some, reason) => {
    for (const session of some) session.close(1012, reason);
  },
  drain: () => Promise.resolve(),
});

/** Creates a server object from these parts. Its other parts use no files or sockets. Artifacts and authentication are missing. */
export function testPlane(parts: Pick<Plane, "clock" | "db"> & Partial<Plane>): Plane {
  const { clock } = parts;
  const log = createLog({ level: "silent" });
  const settings = { ...readSettings({ dashboard: false }, {}), host_names: ["fleet.test"] };
  const noIdentity = missing("authentication");
  return {
    id: idSource(clock),
    log,
    db_errors: { isConnectionLost, isDiskFull, isTimeout, isOutage, isUniqueViolation },
    authenticators: {
      portal: noIdentity,
      session: noIdentity,
      recheck: noIdentity,
      robot: noIdentity,
      refusedRobots: () => Promise.resolve([]),
    },
    findPlaces,
    admin: { token: undefined, behind_proxy: false },
    proxies: new Networks([]),
    tls: undefined,
    hosts: new HostNames({ settings, certificate: () => undefined, clock, onForeign: () => {} }),
    rate_limits: {
      token: new RateLimit(clock, "token", { per_minute: 60_000, burst: 60_000 }),
      org: new RateLimit(clock, "org", { per_minute: 600_000, burst: 600_000 }),
      unknown: new AddressRateLimit(clock, "unknown", { per_minute: 20, burst: 20 }),
      admin: new AddressRateLimit(clock, "admin", { per_minute: 20, burst: 20 }),
    },
    state: new PlaneState(),
    bus: localBus({ log }),
    blobs: NO_BLOBS,
    link: linkOf(new Map()),
    metrics: createMetrics(),
    retention_clock: { now: () => clock.now(), behind_ms: 0, start: missing("retention") },
    secrets: new MasterKeys([Buffer.alloc(32, 7)]),
    settings,
    node: { id: "node_a", epoch: 1 },
    stopping: new AbortController().signal,
    ...parts,
  };
}
