export { admit, authenticateRobot } from "./identity.ts";
export { flushSeen, robotConnected, robotDisconnected, sweepDeadNodes } from "./presence.ts";
export { closeRemovedRobots, ROBOT_REMOVED } from "./remove.ts";
export { requireRobot, robotRoutes } from "./routes.ts";
export { HINT_SUSPENDED, startSuspensionWatch } from "./suspended.ts";
export { insertRobot, type NewRobot, type RobotPlace } from "./store.ts";
