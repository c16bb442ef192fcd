import type { Db } from "../../kernel/db.ts";
import { listPositions } from "./store/robot-state.ts";

export { noteAuthorityChange } from "./cancel/note-authority-change.ts";
export { type DeploymentEngine, startDeploymentEngine } from "./engine.ts";
export { imagesOf, type ReleaseImage } from "./dispatch/desired.ts";
export { followFleet } from "./follow/follow.ts";
export { answerRobotAhead, greetRobot } from "./dispatch/push.ts";
export { takeProgress } from "./report/report.ts";
export { dropDeploymentEvents, dropDeployments } from "./retention.ts";
export { ReportIntake } from "./report/intake.ts";
export { artifactStored, endTargetsOfRobot, robotApproved, robotOnline } from "./dispatch/wake.ts";
export { configDeploymentRoutes, deploymentRoutes } from "./routes.ts";
export { selectionTexts } from "./create/selection.ts";
export { releaseIsDeployed as releaseInUse } from "./store/deployments.ts";
export { mayFetch as mayFetchArtifact } from "./store/robot-state.ts";

/** Returns, for each of these robots' outboxes, the highest number of a stored report; 0 for an unknown outbox. */
export async function reportPositions(
  db: Db,
  org_id: string,
  outboxes: readonly { robot_id: string; outbox_id: string }[],
): Promise<number[]> {
  const robot_ids = outboxes.map(({ robot_id }) => robot_id);
  const rows = await listPositions(db, org_id, robot_ids);
  const known = new Map(rows.map((position) => [position.robot_id, position]));
  return outboxes.map(({ robot_id, outbox_id }) => {
    const position = known.get(robot_id);
    return position?.outbox_id === outbox_id ? position.outbox_seq : 0;
  });
}
