import type { Row } from "./row.ts";
import { acceptPlain, acceptTls } from "./rows/accept.ts";
import { agentFsyncs, agentIdleBytes, agentLogBytes, agentRss } from "./rows/agent-budgets.ts";
import { camera } from "./rows/camera.ts";
import { connectedMemory, connectedMemoryTls } from "./rows/connected-memory.ts";
import { dashboardFirstLoad } from "./rows/dashboard-first-load.ts";
import { dashboardLive } from "./rows/dashboard-live.ts";
import { dashboardScroll } from "./rows/dashboard-scroll.ts";
import { dueDeployments } from "./rows/due-deployments.ts";
import { fanOut } from "./rows/fan-out.ts";
import { fleetDeployment } from "./rows/fleet-deployment.ts";
import { growth } from "./rows/growth.ts";
import { heartbeat } from "./rows/heartbeat.ts";
import { enroll, getRobot, listRobots, postSite } from "./rows/http.ts";
import { idleMemory, idleMemoryTls } from "./rows/idle-memory.ts";
import { ingest } from "./rows/ingest.ts";
import { logFollow } from "./rows/log-follow.ts";
import { logIngest } from "./rows/log-ingest.ts";
import { logSearch } from "./rows/log-search.ts";
import { metricIngest } from "./rows/metric-ingest.ts";
import { metricQuery } from "./rows/metric-query.ts";
import { pgFloor } from "./rows/pg-floor.ts";
import { portForward } from "./rows/port-forward.ts";
import { startUp } from "./rows/start-up.ts";
import { swarm } from "./rows/swarm.ts";

export const ROWS: readonly Row[] = [
  // Must stay first: it measures how long a process takes to start. After the other rows, this process is large, which adds 40 ms to each start.
  startUp,
  getRobot,
  listRobots,
  postSite,
  enroll,
  pgFloor,
  acceptPlain,
  acceptTls,
  heartbeat,
  idleMemory,
  idleMemoryTls,
  connectedMemory,
  connectedMemoryTls,
  fanOut,
  logIngest,
  logFollow,
  logSearch,
  ingest,
  metricIngest,
  metricQuery,
  portForward,
  camera,
  fleetDeployment,
  dueDeployments,
  swarm,
  growth,
  agentIdleBytes,
  agentLogBytes,
  agentFsyncs,
  agentRss,
  dashboardFirstLoad,
  dashboardScroll,
  dashboardLive,
];
