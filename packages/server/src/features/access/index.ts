export { type Authority, authorityOf, type AuthorityDenial, readAuthorities } from "./authority.ts";
export { findPlaces } from "./store.ts";
