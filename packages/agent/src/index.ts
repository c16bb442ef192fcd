export { type Agent, AGENT_VERSION, type AgentOptions, startAgent } from "./agent.ts";
export { type AgentConfig, LOG_SPOOL_BYTES_DEFAULT } from "./config.ts";
export type { CreateDeployments, Deployments, DeploymentsOptions, WorkloadStatus } from "./contract.ts";
export { StateLockedError } from "./disk/lock.ts";
export { EnrollmentRefused, NotEnrolled } from "./identity/enroll.ts";
