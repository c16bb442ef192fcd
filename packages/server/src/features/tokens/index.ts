export { createPortalAuthenticator, type PortalAuthenticator } from "./authenticate.ts";
export { createCredential, type CredentialOptions, secretHash } from "./create.ts";
export { tokenRoutes } from "./routes.ts";
