export type { Bus, BusListener, JsonValue } from "./bus.ts";
export { localBus } from "./local-bus.ts";
