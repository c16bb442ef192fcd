export { type Activity, type Clock, idleActivity, systemClock, type Timer, trackActivity, type TrackedActivity } from "./clock.ts";
export { idFloor, type IdSource, idSource } from "./ids.ts";
export { type Bucket, ByteRate, owe, type Rate, tryTake } from "./token-bucket.ts";
export { exponentialMs, IdleTimeout, timeLimit, within } from "./time-limit.ts";
export { seededRandom, SimulatedClock } from "./simulated-clock.ts";
