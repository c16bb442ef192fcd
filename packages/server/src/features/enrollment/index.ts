export { revokeEveryKey, revokeKeysOf } from "./store.ts";
export { enrollmentRoutes } from "./routes.ts";
