export type { Admission, ExpectedChallenge, Link, LinkHandlers, LinkSettings, Session } from "./contract.ts";
export { FrameRateLimiter, LINK_FRAMES, type RateLimited, PauseReason, ReadValve } from "./read-limits.ts";
export { Gateway } from "./gateway.ts";
export { jsonOfRecords } from "./inbound.ts";
export {
  deleteLongOver,
  Lease,
  LEASE_MS,
  type LeaseDuties,
  listHeartbeats,
  listNodeStates,
  type NodeHeartbeat,
  type NodeRun,
  type NodeState,
  watchHeartbeats,
} from "./lease.ts";
export { type KnownNode, listRefusedHosts, type Nodes, openNodes, writeNodeAddress, writeRefusedHost } from "./nodes/nodes.ts";
export { refuseUpgrade } from "./refuse-upgrade.ts";
