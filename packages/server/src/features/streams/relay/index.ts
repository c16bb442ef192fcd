export { decodeAdmission, readmit } from "./admission.ts";
export { FLEET_SHARE_PATH, FleetShares } from "./fleet-share.ts";
export { decodeHeader } from "./header.ts";
export { type Arrival, Relays } from "./relays.ts";
