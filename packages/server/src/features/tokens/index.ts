export { createPortalAuthenticator, type PortalAuthenticator } from "./authenticate.ts";
export { createCredential, type CredentialOptions } from "./create.ts";
export { tokenRoutes } from "./routes.ts";
export { checkScopes } from "./scopes.ts";
export { hasAdminToken, revokeTokensOfUser } from "./store-manage.ts";
