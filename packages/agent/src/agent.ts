import type { Agent as HttpAgent } from "node:http";
import { join } from "node:path";
import { type Activity, type Clock, idleActivity } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { AgentConfig } from "./config.ts";
import type {
  AppStatus,
  CreateDeployments,
  Deployments,
  Fetcher,
  LogRecord,
  LogSink,
  OutputSink,
  Reporter,
  StopOptions,
} from "./contract.ts";
import { createDeployments } from "./deployments/index.ts";
import { lockState } from "./disk/lock.ts";
import { errorText, makeDirectory } from "./disk/write-atomically.ts";
import { HealthMeter } from "./health/health.ts";
import { httpClient, signedFetcher } from "./http/request.ts";
import { serverAgent } from "./http/server-agent.ts";
import { establishTrust } from "./http/trust.ts";
import { enroll } from "./identity/enroll.ts";
import { type Enrollment, openKey, readBootId, readPlatform } from "./identity/identity.ts";
import type { RobotKey } from "./identity/robot-key.ts";
import { DesiredStore, takeDesired } from "./link/desired-store.ts";
import { Link } from "./link/link.ts";
import { RosBridge } from "./ros/bridge.ts";
import { rosSettings } from "./ros/settings.ts";
import { LocalInterface } from "./local/local-interface.ts";
import { agentLog } from "./logs/agent-log.ts";
import { LogShipper } from "./logs/shipper.ts";
import { LogFilter } from "./logs/log-filter.ts";
import { LogRateLimiter } from "./logs/log-rate-limiter.ts";
import { startLogSources, type LogSources } from "./logs/sources/index.ts";
import { RobotTime } from "./robot-time.ts";
import { ReleaseGuard } from "./signing/release-guard.ts";
import type { ChunkSpool } from "./metrics/chunk-spool.ts";
import { openSamples, startMetrics } from "./metrics/index.ts";
import { LogSpool } from "./spool/log-spool.ts";
import { Outbox } from "./spool/outbox.ts";
import { createShells, type Shells } from "./streams/shell/index.ts";
import { streamSources } from "./streams/index.ts";
import metadata from "../package.json" with { type: "json" };

export const AGENT_VERSION: string = metadata.version;

export interface AgentOptions {
  config: AgentConfig;
  clock: Clock;
  /** Counts the pending work of the agent. Tests with a simulated clock use it to wait until the agent is idle. */
  activity?: Activity;
  /** Receives the agent's own log as human-readable lines. If absent, the lines are dropped. */
  log?: (line: string) => void;
  /** Aborts an enrollment that waits for its server. It does not stop a started agent: call `stop`. */
  signal?: AbortSignal;
  /** Ends the process without stopping the workloads, so that the launcher starts another version. Absent: the agent cannot be replaced. */
  replace?: () => void;
  /** Creates the part that installs and runs releases; tests pass their own. */
  create_deployments?: CreateDeployments;
}

export interface Agent {
  readonly robot_id: string;
  readonly name: string;
  /** True while the link is up: from the server's welcome to the end of the session. */
  readonly connected: boolean;
  readonly log: Logger;
  /** Closes the link and releases the state directory. The workloads keep running, unless the config stops them. */
  stop(options?: StopOptions): Promise<void>;
}

/**
 * Starts an agent with the given state directory. Enrolls first if necessary, and waits while the server is unreachable. Then runs the last
 * known desired state and keeps the link up. Throws StateLockedError, EnrollmentRefused, NotEnrolled.
 */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { config } = options;
  makeDirectory(config.state_directory);
  const unlock = lockState(config.state_directory);
  const disk = openDisk(options);
  try {
    const key = await openKey({ ...config, environment: config.workload_environment, log: disk.log });
    const signal = options.signal ?? new AbortController().signal;
    const trusted = await establishTrust({ config, clock: options.clock, log: disk.log, signal });
    const tls = { ...trusted, agent: openServerAgent(config, disk, trusted.ca) };
    const http = httpClient(options.clock, options.activity, tls);
    const enrollment = await enroll({ ...options, key, log: disk.log, http, signal });
    return await run(options, disk, key, enrollment, tls, unlock);
  } catch (error) {
    disk.close();
    unlock();
    throw error;
  }
}

interface ServerTls {
  ca?: string;
  agent: HttpAgent;
}

/** Returns the HTTP agent for the server. Logs one warning if the server's certificate is not valid yet by the robot's clock. */
function openServerAgent(
  { server, workload_environment: environment }: AgentConfig,
  { time, log }: Disk,
  ca: string | undefined,
): HttpAgent {
  let is_said = false;
  const early = (): void => {
    if (!is_said)
      log.warn(
        "the robot's clock is behind: by this clock the server's certificate is not valid yet; it was accepted because its signature is valid",
      );
    is_said = true;
  };
  return serverAgent(server, { ca, environment, least: () => time.least(), early });
}

interface Disk {
  time: RobotTime;
  log: Logger;
  local: Logger;
  sink: LogSink;
  /**
   * Writes log records to the same spool as `sink`, but with a rate limit for each source. A source that writes too much loses only its own
   * records.
   */
  limiter: LogRateLimiter;
  spool: LogSpool;
  shipper: LogShipper;
  outbox: Outbox;
  /** Absent: the robot's config disables metrics. */
  samples: ChunkSpool | undefined;
  close(): void;
}

function openDisk({ config, clock, log: print = () => {} }: AgentOptions): Disk {
  const time = new RobotTime(clock, config.state_directory);
  const now = (): Date => time.now();
  const parts: { spool?: LogSpool; shipper?: LogShipper } = {};
  const write = (record: LogRecord): void => {
    parts.spool?.append(record);
    parts.shipper?.recordAdded(record);
  };
  const sink = new LogFilter({ rules: config.robot.logs.filters, sink: { write }, clock });
  const limiter = new LogRateLimiter(sink, clock);
  const { log, local } = agentLog({ level: config.log_level, now, print, sink: limiter });
  const diskLog = (what: "log" | "outbox" | "metrics") => (reason: string | undefined) =>
    reason === undefined
      ? local.info({ what }, "writes to the disk succeed again")
      : local.error({ what, reason }, "writes to the disk fail: the newest records are kept in memory");
  const outbox = new Outbox({ directory: join(config.state_directory, "outbox"), clock, now, on_disk: diskLog("outbox") });
  const { runtime_directory } = config;
  const spool = new LogSpool({
    directory: join(config.state_directory, "logs"),
    // The directory has the id of the outbox in its name, so that an agent with another identity never sends these records.
    memory_directory: runtime_directory === undefined ? undefined : join(runtime_directory, `logs-${outbox.outbox_id}`),
    bytes_max: config.log_spool_bytes_max,
    clock,
    now,
    on_disk: diskLog("log"),
  });
  const shipper = new LogShipper(spool, clock);
  const samples = openSamples(config, clock, diskLog("metrics"));
  parts.spool = spool;
  parts.shipper = shipper;
  if (config.failpoint !== undefined) log.warn({ failpoint: config.failpoint.spec }, "this agent kills itself at a failpoint");
  if (config.failpoint_ignored === true) log.warn("ROAMFLEET_FAILPOINT is ignored: it needs --crash-at-failpoint");
  if (outbox.damaged > 0) log.warn({ damaged: outbox.damaged }, "reports that were not sent to the server yet are damaged on the disk");
  const close = (): void => {
    limiter.close();
    sink.close();
    shipper.stop();
    spool.close();
    outbox.close();
  };
  return { time, log, local, sink, limiter, spool, shipper, outbox, samples, close };
}

interface Robot extends Omit<Disk, "close"> {
  options: AgentOptions;
  config: AgentConfig;
  clock: Clock;
  activity: Activity;
  key: RobotKey;
  enrollment: Enrollment;
  tls: ServerTls;
  store: DesiredStore;
  reporter: Reporter;
  local_interface: LocalInterface;
  guard: ReleaseGuard;
  /** Resolved by the first acknowledgement of a report. */
  acknowledged: PromiseWithResolvers<void>;
}

async function run(
  options: AgentOptions,
  disk: Disk,
  key: RobotKey,
  enrollment: Enrollment,
  tls: ServerTls,
  unlock: () => void,
): Promise<Agent> {
  const { config, clock, activity = idleActivity } = options;
  const { log, outbox, time } = disk;
  const { robot_id, org_id, name } = enrollment;
  const { state_directory, labels, workload_environment: environment } = config;
  const store = new DesiredStore({ state_directory, clock, log });
  // The link needs all other parts, so it is created last. The other parts access it through `parts.link`.
  const parts: { link?: Link } = {};
  const reporter: Reporter = {
    report: (body) => {
      outbox.append(body);
      parts.link?.reportAdded();
    },
    progress: (progress) => parts.link?.progress(progress),
  };
  const local_interface = new LocalInterface({ config, clock, log });
  const fetcher = signedFetcher({ server: config.server, robot_id, key, time, http: httpClient(clock, activity, tls) });
  const server_time = (): number => time.serverTime();
  const guard = new ReleaseGuard({ state_directory, org_id, robot_id, labels, clock, server_time, fetcher, log });
  const acknowledged = Promise.withResolvers<void>();
  const parts_of_robot = { options, config, clock, activity, key, enrollment, tls, store, reporter, local_interface, guard, acknowledged };
  const robot: Robot = { ...disk, ...parts_of_robot };
  const deployments = makeDeployments(robot, fetcher, () => parts.link?.connected ?? false);
  const shells = makeShells(robot, deployments);
  const ros = new RosBridge({ settings: rosSettings(config.robot.ros, environment, config.system_root), clock, log });
  const link = makeLink(robot, { deployments, shells, ros });
  parts.link = link;
  log.info({ robot_id, name, server: config.server, version: AGENT_VERSION, generation: store.generation }, "agent started");
  const apps = (): AppStatus[] => deployments.apps();
  await deployments.start();
  const metrics = collectMetrics(robot, { deployments, ros, link });
  const view = { robot_id, name, agent_version: AGENT_VERSION, key: key.place, connected: () => link.connected, apps };
  await local_interface.start({ ...view, pushed: metrics?.pushed });
  link.start();
  ros.start();
  const sources = await startSources(robot, ros).catch((error: unknown) => {
    log.error({ reason: errorText(error) }, "log sources other than workloads cannot be read");
  });
  const stop = async (options?: StopOptions): Promise<void> => {
    await sources?.stop();
    await metrics?.stop();
    await ros.stop();
    await local_interface.stop();
    store.stop();
    await deployments.stop(options);
    await link.stop();
    // Closing the link asks the shells to end. This line waits until shells that ignored the request have been killed.
    await shells.ended();
    log.info("agent stopped");
    disk.close();
    unlock();
  };
  let stopping: Promise<void> | undefined;
  return {
    robot_id,
    name,
    log,
    get connected() {
      return link.connected;
    },
    stop: (options) => (stopping ??= stop(options)),
  };
}

const makeShells = ({ config, clock, guard }: Robot, deployments: Deployments): Shells =>
  createShells({
    clock,
    shell: config.robot.shell,
    environment: config.workload_environment,
    place: (app) => deployments.place(app),
    is_confined: () => guard.requires_signature,
    state_directory: config.state_directory,
  });

function makeDeployments(
  { options, config, clock, log, reporter, limiter, spool, store, guard, local_interface, time, acknowledged }: Robot,
  fetcher: Fetcher,
  connected: () => boolean,
): Deployments {
  const logs: OutputSink = {
    write: (record) => limiter.write(record),
    hasRoom: (source) => limiter.hasRoom(source),
    next_seq: () => spool.last_seq + 1,
    stored_seq: spool.stored_seq,
  };
  const { launched } = config;
  const { replace } = options;
  const self_update =
    launched === undefined || replace === undefined ? {} : { self_update: { launched, replace, acknowledged: acknowledged.promise } };
  return (options.create_deployments ?? createDeployments)({
    ...self_update,
    state_directory: config.state_directory,
    clock,
    log,
    reporter,
    logs,
    fetcher,
    desired: store.current,
    config,
    guard,
    permission: local_interface.permission,
    server_time: () => time.serverTime(),
    connected,
    on_app: local_interface.appChanged,
    on_config: local_interface.configChanged,
  });
}

const collectMetrics = (robot: Robot, { deployments, ros, link }: { deployments: Deployments; ros: RosBridge; link: Link }) =>
  startMetrics({
    ...robot,
    own: () => agentMetrics(robot.outbox, robot.spool),
    apps: () => deployments.scrape_targets?.() ?? [],
    ros,
    added: () => link.samplesAdded(),
  });

const startSources = ({ config, clock, log, sink, spool }: Robot, ros: RosBridge): Promise<LogSources> =>
  startLogSources({
    settings: config.robot.logs,
    state_directory: config.state_directory,
    clock,
    log,
    sink,
    environment: config.workload_environment,
    spoolHasRoom: () => spool.bytes < config.log_spool_bytes_max / 2,
    spool,
    boot_id: readBootId(config.system_root),
    recent_directory: config.runtime_directory ?? config.state_directory,
    ros,
  });

const RUN_ID_BYTES = 8;

function makeLink(robot: Robot, { deployments, shells, ros }: { deployments: Deployments; shells: Shells; ros: RosBridge }): Link {
  const { config, tls, clock, key, log, time, outbox, spool, store, guard, local_interface } = robot;
  const { robot_id } = robot.enrollment;
  const { system_root, state_directory, workload_environment: environment } = config;
  const boot_id = readBootId(system_root);
  const run_id = Buffer.from(clock.randomBytes(RUN_ID_BYTES)).toString("hex");
  const meter = new HealthMeter({
    system_root,
    clock,
    time,
    boot_id,
    workloads: () => deployments.workloads(),
    ros: () => ros.health(),
    metrics: () => agentMetrics(outbox, spool),
  });
  return new Link({
    ...robot,
    ...tls,
    server: config.server,
    robot_id,
    key,
    introduce: () => ({
      boot_id,
      run_id,
      agent_version: AGENT_VERSION,
      platform: readPlatform(system_root),
      kinds: deployments.kinds,
      generation: store.generation,
    }),
    health: () => meter.measure(),
    health_seconds: config.robot.health.interval_seconds,
    upload_bytes_per_second: config.robot.network.upload_bytes_per_second,
    sources: streamSources({ robot: config.robot, clock, log, state_directory, signatures: guard, environment, shells, ros }),
    announce: () => deployments.announce(),
    on_acknowledged: robot.acknowledged.resolve,
    on_connection: (connected, reason) => {
      spool.linked = connected;
      local_interface.connectionChanged(connected, reason);
    },
    desired: (desired) => {
      if (desired.robot_id === undefined || desired.robot_id === robot_id) takeDesired({ ...robot, deployments }, desired);
      else log.error({ robot_id: desired.robot_id, generation: desired.generation }, "refused a desired state for another robot");
    },
  });
}

function agentMetrics(outbox: Outbox, spool: LogSpool): Record<string, number> {
  return {
    agent_rss_bytes: process.memoryUsage.rss(),
    outbox_reports: outbox.size,
    log_spool_bytes: spool.bytes,
    log_records_dropped: spool.dropped,
  };
}
