export { createPortalAuthenticator, type PortalAuthenticator } from "./authenticate.ts";
export { createCredential, type CredentialOptions } from "./create.ts";
export { tokenRoutes } from "./routes.ts";
export { sessionRoutes, sweepSessions } from "./sessions.ts";
export { checkScopes } from "./scopes.ts";
export { hasAdminToken, revokeEveryToken, revokeTokensOfUser } from "./store-manage.ts";
