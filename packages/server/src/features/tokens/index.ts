export { createPortalAuthenticator, type PortalAuthenticator } from "./authenticate.ts";
export { checkScopes, createCredential, type CredentialOptions } from "./create.ts";
export { tokenRoutes } from "./routes.ts";
export { sessionRoutes, sweepSessions } from "./sessions.ts";
export { hasAdminToken, revokeEveryToken, revokeTokensOfUser } from "./store.ts";
