export type { Bus, BusListener } from "./bus.ts";
export { localBus } from "./local-bus.ts";
