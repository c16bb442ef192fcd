export { authenticateRobot, createAdmission, refusedRobots, sweepNonces } from "./identity.ts";
export { compareLinks, flushSeen, robotConnected, robotDisconnected, sweepDeadNodes } from "./presence.ts";
export { findLinkState } from "./store-presence.ts";
export { closeRemovedRobots, endLinkOfReplaced, HINT_SUSPENDED, ROBOT_REMOVED, startSuspensionWatch } from "./remove.ts";
export { readLabel, readLabels, requireRobot, robotRoutes } from "./routes.ts";
export { isPublicKey } from "./public-key.ts";
export { agentOlderThan } from "./store-list.ts";
export { giveRobotKey, insertingRobots, lockRobot, type NewRobot, revokeEveryApproval, type RobotPlace } from "./store.ts";
