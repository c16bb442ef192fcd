export { fleetRoutes, requireFleet } from "./routes.ts";
export type { FleetPlace } from "./store.ts";
