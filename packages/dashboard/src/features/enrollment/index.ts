export { readAuthority } from "./authority.ts";
