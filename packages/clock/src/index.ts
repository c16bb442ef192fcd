export { type Activity, idleActivity, trackActivity, type TrackedActivity } from "./activity.ts";
export { type Clock, systemClock, type Timer } from "./clock.ts";
export { idFloor, type IdSource, idSource } from "./ids.ts";
export { seededRandom } from "./random.ts";
export { SimulatedClock } from "./simulated-clock.ts";
