export { findPlaces } from "./store.ts";
