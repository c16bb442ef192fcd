export { releaseRoutes } from "./routes.ts";
export { startBlobSweep, startUploadExpiry } from "./sweep.ts";
