import { statfs } from "node:fs/promises";
import { routes } from "@roamfleet/protocol/routes";
import { within } from "@roamfleet/clock";
import packageJson from "../../../package.json" with { type: "json" };
import type { Plane } from "../../context.ts";
import { httpError, notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { Answer, serve } from "../../kernel/serve.ts";
import { listHeartbeats } from "../../link/index.ts";

export function operationRoutes(http: Http, plane: Plane): void {
  serve(http, plane, routes.getHealthz, async () => ({ status: "ok" as const }));
  serve(http, plane, routes.getReadyz, async () => {
    if (plane.stopping.aborted) throw httpError(503, "not ready: the server is stopping", { "retry-after": "2" });
    const checks = await checkReady(plane);
    const failed = reasonsNotReady(checks, plane);
    if (failed.length > 0)
      throw httpError(503, `not ready: ${failed.map(([name, state]) => `${name} ${state}`).join(", ")}`, { "retry-after": "2" });
    return { status: "ready" as const, node_id: plane.node.id, checks };
  });
  serve(http, plane, routes.getCertificateAuthority, async ({ tls }) => {
    if (tls?.authority === undefined) throw notFound("certificate authority", "ca.pem");
    return new Answer<never>(200, tls.authority.pem, { "content-type": "application/x-pem-file" });
  });
  plane.metrics.node_info.set({ node_id: plane.node.id, version: packageJson.version }, 1);
  serve(http, plane, routes.getMetrics, async () => {
    await countNodes(plane);
    plane.metrics.disk_full.set((await isDataDiskFull(plane.settings)) ? 1 : 0);
    const { registry } = plane.metrics;
    return new Answer<never>(200, await registry.metrics(), { "content-type": registry.contentType });
  });
}

/** Timeout of the database query for this metric. Metrics must stay available while the database fails. */
const COUNT_TIMEOUT_MS = 500;

/** Sets the metric of live nodes. If the database does not respond in time, the metric keeps its last value. */
async function countNodes({ db, clock, metrics }: Plane): Promise<void> {
  const nodes = await within(
    clock,
    COUNT_TIMEOUT_MS,
    listHeartbeats(db).catch(() => undefined),
  );
  if (nodes !== undefined) metrics.nodes_living.set(nodes.length);
}

const LATE = "does not answer";
const FAILS = "fails";
const READY_TIMEOUT_MS = 2_000;
const BUS_DISCONNECTED = "not connected";
const DISK_FULL = "full";
/** Free space below which a disk counts as full. It is the size of a WAL segment: with less, PostgreSQL stops at the next segment. */
const DISK_FULL_BYTES = 16 * 1024 ** 2;

/** Checks each dependency that requests need. Returns the state by name: `ok`, or the problem. */
async function checkReady({ db, blobs, bus, clock, settings }: Plane): Promise<Record<string, string>> {
  const artifacts = blobs.freeBytes().then(
    () => "ok",
    () => FAILS,
  );
  const [is_ready, artifacts_state = LATE, is_full] = await Promise.all([
    db.ready(READY_TIMEOUT_MS),
    within(clock, READY_TIMEOUT_MS, artifacts),
    isDataDiskFull(settings),
  ]);
  return {
    database: is_ready ? "ok" : LATE,
    bus: bus.connected ? "ok" : BUS_DISCONNECTED,
    artifacts: artifacts_state,
    disk: is_full ? DISK_FULL : "ok",
  };
}

/** Whether the disk of the data directory has less than DISK_FULL_BYTES free. */
async function isDataDiskFull({ data_directory }: Plane["settings"]): Promise<boolean> {
  const disk = await statfs(data_directory).catch(() => undefined);
  return disk !== undefined && disk.bavail * disk.bsize < DISK_FULL_BYTES;
}

/**
 * Returns the failed checks, by name, that should make a load balancer send requests to other nodes. Ignores three problems:
 * - The bus is disconnected: all requests work without it, and only notifications from other nodes arrive late.
 * - The disk is full: reads still work, and an administrator must send requests to free space.
 * - A shared artifact store fails: only uploads and downloads need it, and otherwise the load balancer would remove all nodes.
 */
const reasonsNotReady = (checks: Record<string, string>, { settings }: Plane): [name: string, state: string][] =>
  Object.entries(checks).filter(
    ([name, state]) =>
      state !== "ok" && state !== BUS_DISCONNECTED && state !== DISK_FULL && !(name === "artifacts" && settings.blobs !== undefined),
  );

export { startOperationSamples } from "./sample-operation.ts";
