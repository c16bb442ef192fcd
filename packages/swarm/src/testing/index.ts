export { apply, type Behavior, fail, ignore, offlineAt, rollBack, type RobotStep, slow, stuckAt } from "./app-runner.ts";
export { EnrollmentFailed } from "./identity.ts";
export { type RobotOptions, SimulatedRobot, startSwarm } from "./simulated-robot.ts";
export { Swarm, type SwarmOptions } from "./swarm.ts";
