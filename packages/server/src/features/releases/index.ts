export { releaseRoutes } from "./routes.ts";
export { startBlobSweep } from "./sweep.ts";
