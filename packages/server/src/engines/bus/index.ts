export type { Bus, BusListener } from "./bus.ts";
export { localBus } from "./local-bus.ts";
export { natsBus } from "./nats-bus.ts";
export { type NatsSeen, probeNats } from "./probe-nats.ts";
