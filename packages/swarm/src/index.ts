export { apply, type Behaviour, fail, ignore, offlineAt, rollBack, type RobotStep, slow, stuckAt } from "./behaviour.ts";
export { EnrolmentFailed } from "./enroll.ts";
export { LinkRefused } from "./robot-link.ts";
export { type RobotOptions, SimulatedRobot } from "./simulated-robot.ts";
export { type RunningSwarm, startSwarm, type StartSwarmOptions } from "./start-swarm.ts";
export { Swarm, type SwarmOptions } from "./swarm.ts";
