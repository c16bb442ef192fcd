export * from "./release-statement.ts";
export * from "./signed-text.ts";
export * from "./trust-statement.ts";
