export type { Admission, Link, LinkHandlers, LinkSettings, Session } from "./contract.ts";
export { Gateway } from "./gateway.ts";
export { jsonOfRecords } from "./inbound.ts";
export { giveUpLease, keepLease, LEASE_MS, takeLease } from "./lease.ts";
export { refuseUpgrade } from "./refuse-upgrade.ts";
