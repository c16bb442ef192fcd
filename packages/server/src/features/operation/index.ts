export { operationRoutes } from "./routes.ts";
export { startOperationSamples } from "./sample-operation.ts";
