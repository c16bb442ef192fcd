export { signingRoutes } from "./routes.ts";
export { latestStatement, requireDeployable, requireSignatureOf } from "./verify.ts";
