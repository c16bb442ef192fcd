export type { Admission, ExpectedChallenge, Link, LinkHandlers, LinkSettings, Session } from "./contract.ts";
export { FramePace, LINK_UNITS, type Paced } from "./frame-pace.ts";
export { Gateway } from "./gateway.ts";
export { jsonOfRecords } from "./inbound.ts";
export {
  deleteLongOver,
  Lease,
  LEASE_MS,
  type LeaseDuties,
  listBeats,
  listLivingNodes,
  listNodeStates,
  type NodeBeat,
  type NodeRun,
  type NodeState,
} from "./lease.ts";
export { type KnownNode, listRefusedHosts, type Nodes, openNodes, writeNodeAddress, writeRefusedHost } from "./nodes/index.ts";
export { Hold, ReadValve } from "./read-valve.ts";
export { refuseUpgrade } from "./refuse-upgrade.ts";
export { watchBeats } from "./watch-beats.ts";
