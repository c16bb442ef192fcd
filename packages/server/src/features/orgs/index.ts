export { dropPendingOrgs } from "./approve.ts";
export { orgRoutes } from "./routes.ts";
export { listActiveOrgs } from "./store.ts";
