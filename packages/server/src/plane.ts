import { randomBytes } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type Activity, type Clock, idleActivity, idSource } from "@roamfleet/clock";
import { LINK_PATH } from "@roamfleet/protocol";
import type { Logger } from "pino";
import { type Limits, type Settings, SettingsError } from "./config.ts";
import type { Plane } from "./context.ts";
import { openDatabase } from "./data-directory.ts";
import { type Blobs, directoryBlobs, s3Blobs, S3Error } from "./engines/blobs/index.ts";
import { type Bus, exposureOf, localBus, natsBus } from "./engines/bus/index.ts";
import type { Embedded } from "./engines/db/embedded/index.ts";
import { type DbAddress, isConnectionLost, isDiskFull, isOutage, isTimeout, isUniqueViolation } from "./engines/db/index.ts";
import { findPlaces } from "./features/access/index.ts";
import { countDataKeys, rewrapDataKeys } from "./features/configs/index.ts";
import { dashboardPages, openDashboard } from "./features/dashboard/index.ts";
import { answerRobotAhead, greetRobot, ReportIntake, robotOnline, takeProgress } from "./features/deployments/index.ts";
import { createEventStreams } from "./features/events/index.ts";
import { ingestHealth } from "./features/health/index.ts";
import { ingestLogs, logPositions, resumeFollowing } from "./features/logs/index.ts";
import { takeSamples } from "./features/metrics/index.ts";
import {
  authenticateRobot,
  closeRemovedRobots,
  createAdmission,
  refusedRobots,
  robotConnected,
  robotDisconnected,
} from "./features/robots/index.ts";
import { createStreams } from "./features/streams/index.ts";
import { createPortalAuthenticator, type PortalAuthenticator } from "./features/tokens/index.ts";
import { background } from "./kernel/background.ts";
import type { SystemDb } from "./kernel/db.ts";
import { HostNames } from "./kernel/host-names.ts";
import { beginShutdown, createHttp, HOST_TWICE, mayConnect, namesHostTwice, NO_PROXY, stopHttp } from "./kernel/http.ts";
import { PlaneState } from "./kernel/kernel-plane.ts";
import { type MasterKeys, openMasterKeys } from "./kernel/master-keys.ts";
import {
  createMetrics,
  measureConnections,
  measureLinks,
  measureLogOutput,
  measureRetentionClock,
  type Metrics,
} from "./kernel/metrics.ts";
import { linkSource, Networks } from "./kernel/networks.ts";
import { AddressRateLimit, RateLimit } from "./kernel/rate-limit.ts";
import { RetentionClock } from "./kernel/retention-clock.ts";
import { servePages } from "./kernel/serve.ts";
import { openTls } from "./kernel/tls/own-certificate.ts";
import type { Tls } from "./kernel/tls/tls.ts";
import {
  Gateway,
  Lease,
  type LinkHandlers,
  type Nodes,
  openNodes,
  refuseUpgrade,
  writeNodeAddress,
  writeRefusedHost,
} from "./link/index.ts";
import { mountRoutes } from "./mount-routes.ts";
import { startLoops } from "./start-loops.ts";

export interface PlaneOptions {
  settings: Settings;
  clock: Clock;
  log: Logger;
  /** Where the log is written. A metric shows how many of its lines were dropped. */
  output?: { readonly lines_dropped: number };
  /** Counts running work, for tests that control time. */
  activity?: Activity;
  /** The database to use. Default: the one of the settings, or an embedded one in the data directory. */
  database?: DbAddress;
  /** True to compare every row of a query with the row's declared columns, for tests. */
  check_rows?: boolean;
}

export interface RunningPlane {
  plane: Plane;
  /** URL of the API, for example http://127.0.0.1:7600 */
  url: string;
  /** Resolves with a reason when this process must exit. The server still runs then: the caller must call `stop`. */
  failed: Promise<string>;
  /** Shuts down gracefully: sends robots away, finishes running requests, stops loops, closes the database. */
  stop(): Promise<void>;
  /**
   * Stops only the embedded database, so that the process can exit during a long `stop`. The database would otherwise outlive the process.
   */
  abort(): Promise<void>;
}

/** Length of the kernel's queue of new connections. Clients that find it full retry seconds later. This is Linux's default maximum. */
const BACKLOG = 4_096;
const TOKENS_SEEN_FLUSH_EVERY_MS = 15_000;

/** Creates the plane and starts it. After a failure, everything that was started is stopped. */
export async function startPlane(options: PlaneOptions): Promise<RunningPlane> {
  const started: (() => Promise<unknown>)[] = [];
  const stop = (): Promise<void> => undoAll(started.splice(0));
  try {
    // Builds the dashboard while the database starts, because both take seconds in a new clone of the repository.
    const dashboard = options.settings.dashboard === true ? openDashboard(options) : undefined;
    const stopping = new AbortController();
    const { plane, gateway, lease, embedded } = await buildPlane(options, started, stopping.signal);
    measureConnections(plane.metrics, plane.db);
    measureLinks(plane.metrics, () => gateway.load);
    measureRetentionClock(plane.metrics, plane.retention_clock);
    measureLogOutput(plane.metrics, options.output);
    const nodes = await openNodeListener(plane, started);
    const streams = createStreams(plane, nodes);
    const http = await createHttp(plane, { tls: plane.tls, metrics: plane.metrics });
    mountRoutes(http, plane);
    if (dashboard !== undefined) servePages(http, dashboardPages(await dashboard, options.settings.map_tiles));
    streams.routes(http);
    const events = createEventStreams(plane);
    events.routes(http);
    started.push(() => stopHttp(http, options.clock));
    http.server.on("upgrade", (request, socket, head) => {
      // The class URL is not used here, because it throws on a path such as `//`.
      const pathname = (request.url ?? "/").split("?", 1)[0];
      if (!mayConnect(plane, request)) refuseUpgrade(socket, 403, "forbidden", NO_PROXY);
      else if (namesHostTwice(request)) refuseUpgrade(socket, 400, "bad_request", HOST_TWICE);
      else if (pathname === LINK_PATH) gateway.upgrade(request, socket, head, linkSource(request, plane.proxies));
      else if (!streams.upgrade(request, socket, head)) refuseUpgrade(socket, 404, "not_found", "this path does not support WebSocket");
    });
    const failed = Promise.withResolvers<string>();
    const loops = await startLoops(plane, streams, { lease, fail: failed.resolve });
    started.push(() => Promise.all(loops.map((loop) => loop.stop())));
    started.push(() => gateway.drain("the server is stopping"));
    // The functions in `started` run in reverse order, so viewers are notified of the shutdown before the robots' links are closed.
    started.push(() => streams.drain());
    started.push(() => events.drain());
    started.push(() => beginShutdown(http, { clock: options.clock, stopping, ...options.settings.limits }));
    // Subscribe before the server listens: otherwise an early response could miss a change that another node has made.
    await plane.bus.subscribed();
    const { host, port } = options.settings.listen;
    await http.app.listen({ host, port, backlog: BACKLOG });
    const address = http.server.address() as AddressInfo;
    const shown = host.includes(":") ? `[${host}]` : host;
    return {
      plane,
      url: `${options.settings.tls === undefined ? "http" : "https"}://${shown}:${address.port}`,
      failed: failed.promise,
      stop,
      abort: async () => embedded?.stop(),
    };
  } catch (error) {
    await stop().catch(() => {});
    throw error;
  }
}

/** Opens the listener for other nodes. Returns undefined if none is configured. */
async function openNodeListener(plane: Plane, started: (() => Promise<unknown>)[]): Promise<Nodes | undefined> {
  const { db, settings, node, metrics } = plane;
  if (settings.nodes === undefined) {
    // Removes the address that an earlier run may have stored.
    await writeNodeAddress(db, node, undefined);
    return undefined;
  }
  const nodes = await openNodes({ ...plane, onRefused: () => metrics.node_connections_refused.inc() }, settings.nodes);
  started.push(() => nodes.close());
  return nodes;
}

async function buildPlane(
  options: PlaneOptions,
  started: (() => Promise<unknown>)[],
  stopping: AbortSignal,
): Promise<{ plane: Plane; gateway: Gateway; lease: Lease; embedded: Embedded | undefined }> {
  const { settings, clock, log, activity = idleActivity } = options;
  const { limits } = settings;
  const { db, embedded } = await openDatabase(options, started);
  const secrets = await openSecrets(settings, db, log);
  const tls = await openOwnTls(options, started);
  const lease = await Lease.take({ db, clock, log }, await nodeId(settings.data_directory));
  started.push(() => lease.giveUp().catch(() => {}));
  const retention_clock = await RetentionClock.open({ db, clock, log, has_remote_database: settings.database_url !== undefined });
  const blobs = await openBlobs(options, retention_clock);
  started.push(() => blobs.close());
  const metrics = createMetrics();
  const bus = await openBus(options, metrics);
  started.push(() => bus.close());
  const id = idSource(clock);
  const portal = createPortalAuthenticator({ db, clock, limits });
  const late: { handlers?: LinkHandlers } = {};
  const gateway = new Gateway({
    clock,
    id,
    log,
    activity,
    settings: limits,
    is_held: () => lease.is_held,
    handlers: () => {
      if (late.handlers === undefined) throw new Error("a robot connected before the plane was ready");
      return late.handlers;
    },
  });
  const plane: Plane = {
    clock,
    id,
    log,
    db,
    db_errors: { isConnectionLost, isDiskFull, isTimeout, isOutage, isUniqueViolation },
    authenticators: authenticators(portal, () => plane),
    findPlaces,
    admin: { token: settings.admin_token, behind_proxy: settings.behind_proxy.length > 0 },
    proxies: new Networks(settings.behind_proxy),
    tls,
    hosts: hostNames(options, { db, tls, node: lease.node }),
    rate_limits: rateLimits(clock, limits),
    state: new PlaneState(),
    bus,
    blobs,
    link: gateway,
    retention_clock,
    metrics,
    secrets,
    settings,
    node: lease.node,
    stopping,
  };
  const reports = new ReportIntake(plane);
  started.push(() => reports.settled());
  late.handlers = linkHandlers(plane, reports);
  const unwatch = closeRemovedRobots(plane);
  started.push(async () => unwatch());
  const flush_tokens = background(plane, "token use", TOKENS_SEEN_FLUSH_EVERY_MS, () => portal.flushUsed());
  started.push(() => flush_tokens.stop());
  return { plane, gateway, lease, embedded };
}

/** Returns the host names of this server. If a robot signed for another host, logs the host and stores it for `roamfleet doctor`. */
function hostNames({ settings, clock, log }: PlaneOptions, { db, tls, node }: Pick<Plane, "db" | "tls" | "node">): HostNames {
  const onForeign = (host: string): void => {
    log.warn({ host, names: hosts.list() }, "refused a robot's signature for another host");
    writeRefusedHost(db, node, { host, at: clock.now() }).catch((error: unknown) =>
      log.warn({ err: error }, "could not store the refused host"),
    );
  };
  const hosts = new HostNames({ settings, clock, certificate: () => tls?.pair.cert, onForeign });
  if (!hosts.is_known) log.warn({}, "ROAMFLEET_HOST_NAMES is not set: behind a proxy, this server accepts robots' signatures for any host");
  return hosts;
}

async function openOwnTls({ settings, clock, log }: PlaneOptions, started: (() => Promise<unknown>)[]): Promise<Tls | undefined> {
  const tls = await openTls(settings, { clock, log });
  started.push(async () => tls?.stop());
  if (tls?.authority !== undefined) {
    const { fingerprint, file } = tls.authority;
    log.info({ fingerprint, file }, "the certificate authority of this server");
  }
  return tls;
}

/** Throws SettingsError if the S3 store of the settings refuses access. */
async function openBlobs({ settings, clock, log }: PlaneOptions, retention_clock: RetentionClock): Promise<Blobs> {
  if (settings.blobs === undefined) return await directoryBlobs(path.join(settings.data_directory, "blobs"), { log });
  try {
    return await s3Blobs(settings.blobs, { clock, retention_clock, log });
  } catch (error) {
    throw error instanceof S3Error ? new SettingsError(`artifacts cannot be stored at ROAMFLEET_BLOBS_URL: ${error.message}`) : error;
  }
}

/** Opens the NATS bus if one is configured, else a bus within this process. NATS may be unreachable at this time. */
async function openBus({ settings, clock, log, activity = idleActivity }: PlaneOptions, metrics: Metrics): Promise<Bus> {
  const onConnected = (connected: boolean): void => metrics.bus_connected.set(connected ? 1 : 0);
  onConnected(settings.bus === undefined);
  const exposure = settings.bus && exposureOf(settings.bus);
  if (exposure !== undefined) log.warn({ missing: exposure }, "ROAMFLEET_BUS_URL uses another machine without credentials or TLS");
  const shared = settings.bus && natsBus({ address: settings.bus, clock, log, activity, onConnected });
  const bus = (await shared) ?? localBus({ log, activity });
  bus.onGap(() => metrics.bus_gaps.inc());
  return bus;
}

/**
 * Opens the master keys, and re-encrypts data keys that an earlier key encrypted. Logs an error if data keys need a master key that this
 * server lacks. Throws SettingsError if this is one of several servers and it can decrypt none of them: the servers could not read each
 * other's secrets.
 */
async function openSecrets(settings: Settings, db: SystemDb, log: Logger): Promise<MasterKeys> {
  const secrets = await openMasterKeys(settings);
  const { rewrapped, unknown } = await rewrapDataKeys(db, { secrets });
  if (unknown > 0 && settings.bus !== undefined && (await countDataKeys(db, { secrets })).readable === 0)
    throw new SettingsError(
      "the secrets key of this server decrypts none of the secrets in the database, which other servers encrypted: all servers need the same key, in ROAMFLEET_SECRETS_KEY or ROAMFLEET_SECRETS_KEY_FILE. If it is permanently lost, see docs/guide/operating.md, The secrets key.",
    );
  if (rewrapped > 0) log.info({ data_keys: rewrapped }, "re-encrypted data keys with the new secrets key");
  if (unknown > 0)
    log.error({ data_keys: unknown }, "secrets cannot be read: they were encrypted with a secrets key that this server does not have");
  return secrets;
}

const authenticators = (portal: PortalAuthenticator, plane: () => Plane): Plane["authenticators"] => ({
  portal: (secret, org_id) => portal.authenticate(secret, org_id),
  session: (secret, org_id) => portal.authenticateSession(secret, org_id),
  recheck: (proof, org_id) => portal.recheck(proof, org_id),
  robot: (robot_id, request, signature) => authenticateRobot(plane(), robot_id, request, signature),
  refusedRobots: (robots) => refusedRobots(plane(), robots),
});

function rateLimits(clock: Clock, limits: Limits): Plane["rate_limits"] {
  const { token_requests_per_minute, token_burst, unknown_requests_per_minute, api_requests_per_org_per_minute: of_org } = limits;
  const unknown = { per_minute: unknown_requests_per_minute, burst: unknown_requests_per_minute };
  // An org's limit is never below that of a single token.
  const org_per_minute = Math.max(of_org, token_requests_per_minute);
  return {
    org: new RateLimit(clock, "org", { per_minute: org_per_minute, burst: Math.max(org_per_minute, token_burst) }),
    token: new RateLimit(clock, "token", { per_minute: token_requests_per_minute, burst: token_burst }),
    unknown: new AddressRateLimit(clock, "unknown", unknown),
    admin: new AddressRateLimit(clock, "admin", unknown),
  };
}

/**
 * Returns the node's id, which it creates at the first start. The id stays the same across restarts, so that a new run finds the robots of
 * the node's dead runs.
 */
async function nodeId(data_directory: string): Promise<string> {
  const file = path.join(data_directory, "node-id");
  const kept = await readFile(file, "utf8").catch(() => "");
  if (/^node_[0-9a-f]{16}$/.test(kept.trim())) return kept.trim();
  const made = `node_${randomBytes(8).toString("hex")}`;
  await writeFile(`${file}.tmp`, `${made}\n`);
  await rename(`${file}.tmp`, file);
  return made;
}

/** Returns the handlers of robots' connections, disconnections and messages. The type requires a handler for each message type. */
function linkHandlers(plane: Plane, reports: ReportIntake): LinkHandlers {
  return {
    admit: createAdmission(plane, logPositions),
    connected: async (session, public_key) => {
      plane.metrics.robots_connected.set(plane.link.count);
      await robotConnected(plane, session, public_key);
      resumeFollowing(plane, session);
      await greetRobot(plane, session);
      await robotOnline(plane, session.org_id, session.robot_id);
    },
    disconnected: async (session, reason) => {
      plane.metrics.robots_connected.set(plane.link.count);
      await robotDisconnected(plane, session, reason);
    },
    messages: {
      report: async (session, message) => {
        await reports.take(session, message);
        if (message.body.kind === "observed") await answerRobotAhead(plane, session, message.body.generation);
      },
      progress: (session, message) => takeProgress(plane.db.forOrg(session.org_id), plane, session, message),
      health: (session, message) => ingestHealth(plane, session, message),
      logs: (session, message) => ingestLogs(plane, session, message),
      samples: (session, message) => takeSamples(plane, session, message),
    },
  };
}

/**
 * Undoes all steps, the last one first. Continues after a failure: otherwise the embedded database might outlive its server.
 *
 * @throws the error of a failed step, after all steps were undone; an AggregateError if several failed.
 */
export async function undoAll(started: readonly (() => Promise<unknown>)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const undo of started.toReversed()) {
    try {
      await undo();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 1) throw new AggregateError(failures, "several parts of the server could not be stopped cleanly");
  if (failures.length === 1) throw failures[0];
}
