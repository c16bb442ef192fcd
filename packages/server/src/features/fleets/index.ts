export { fleetRoutes, requireFleet } from "./routes.ts";
export { findFleetWith, listFleetsToFollow, lockFleetDesired, moveFollowCursor, setFleetConfig, setFleetDesired } from "./store-desired.ts";
export { type FleetPlace, shareFleet } from "./store.ts";
