export { createPortalAuthenticator, type PortalAuthenticator } from "./authenticate.ts";
export { createCredential, type CredentialOptions } from "./create.ts";
export { tokenRoutes } from "./routes.ts";
