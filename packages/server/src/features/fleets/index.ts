export { fleetRoutes, requireFleet } from "./routes.ts";
export {
  findFleetWith,
  type FleetPlace,
  listFleetsToFollow,
  lockFleetDesired,
  moveFollowCursor,
  setFleetConfig,
  setFleetDesired,
  shareFleet,
} from "./store.ts";
