export { dropPendingOrgs, orgRoutes } from "./routes.ts";
export { listActiveOrgs } from "./store.ts";
