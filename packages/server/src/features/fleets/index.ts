export { fleetRoutes, requireFleet } from "./routes.ts";
export { type FleetPlace, shareFleet } from "./store.ts";
