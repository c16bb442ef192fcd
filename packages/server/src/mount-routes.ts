import type { Plane } from "./context.ts";
import { alertRoutes, channelRoutes } from "./features/alerts/index.ts";
import { auditRoutes } from "./features/audit/index.ts";
import { configRoutes } from "./features/configs/index.ts";
import { configDeploymentRoutes, deploymentRoutes } from "./features/deployments/index.ts";
import { enrollmentRoutes } from "./features/enrollment/index.ts";
import { fleetRoutes } from "./features/fleets/index.ts";
import { healthRoutes } from "./features/health/index.ts";
import { overviewRoutes } from "./features/overview/index.ts";
import { logRoutes } from "./features/logs/index.ts";
import { metricRoutes } from "./features/metrics/index.ts";
import { operationRoutes } from "./features/operation/index.ts";
import { orgRoutes } from "./features/orgs/index.ts";
import { packageRoutes } from "./features/packages/index.ts";
import { referenceRoutes } from "./features/reference/index.ts";
import { positionRoutes } from "./features/positions/index.ts";
import { releaseRoutes } from "./features/releases/index.ts";
import { reportRoutes } from "./features/report/index.ts";
import { robotRoutes } from "./features/robots/index.ts";
import { shellRoutes } from "./features/shells/index.ts";
import { signingRoutes } from "./features/signing/index.ts";
import { siteRoutes } from "./features/sites/index.ts";
import { ticketRoutes } from "./features/streams/index.ts";
import { timelineRoutes } from "./features/timeline/index.ts";
import { sessionRoutes, tokenRoutes } from "./features/tokens/index.ts";
import { userRoutes } from "./features/users/index.ts";
import { viewRoutes } from "./features/views/index.ts";
import { type Http } from "./kernel/http.ts";

/** Registers the HTTP routes of every feature. */
export function mountRoutes(http: Http, plane: Plane): void {
  for (const mount of [
    operationRoutes,
    referenceRoutes,
    packageRoutes,
    orgRoutes,
    userRoutes,
    tokenRoutes,
    sessionRoutes,
    signingRoutes,
    siteRoutes,
    fleetRoutes,
    alertRoutes,
    channelRoutes,
    overviewRoutes,
    reportRoutes,
    robotRoutes,
    positionRoutes,
    enrollmentRoutes,
    releaseRoutes,
    deploymentRoutes,
    configDeploymentRoutes,
    configRoutes,
    healthRoutes,
    metricRoutes,
    logRoutes,
    timelineRoutes,
    shellRoutes,
    ticketRoutes,
    viewRoutes,
    auditRoutes,
  ]) {
    mount(http, plane);
  }
}
