export * from "./release-statement.ts";
export * from "./signed-text.ts";
export * from "./spki.ts";
export * from "./trust-statement.ts";
