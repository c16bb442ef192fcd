export { requireSite, siteRoutes } from "./routes.ts";
