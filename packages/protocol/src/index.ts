export * from "./errors.ts";
export * from "./ids.ts";
export * from "./paths.ts";
export * from "./states.ts";
