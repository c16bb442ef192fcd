export * from "./access.ts";
export * from "./errors.ts";
export * from "./ids.ts";
export * from "./namespace-file.ts";
export * from "./paths.ts";
export * from "./states.ts";
