export { type Connection } from "./connect.ts";
export { type Log } from "./log.ts";
export { Refusal } from "./refusal.ts";
export { type Embedded, type EmbeddedOptions, type ExitListener, startEmbedded } from "./supervisor.ts";
