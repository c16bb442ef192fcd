export { type Bus, type BusListener, isInteger, isListOf, isText, readHint } from "./bus.ts";
export { localBus } from "./local-bus.ts";
export { exposureOf } from "./nats-address.ts";
export { natsBus } from "./nats-bus.ts";
export { type NatsSeen, probeNats } from "./probe-nats.ts";
