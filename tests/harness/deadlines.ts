import { UNTIL_MS } from "@roamfleet/clock/testing";

/** The longest delay of an agent between two connection attempts. */
const AGENT_WAITS_MS_MAX = 60_000;

/** Deadline for the reconnect of a robot after an outage of its server. The default of `until` may be shorter than the agent's delay. */
export const ROBOT_BACK_MS = AGENT_WAITS_MS_MAX + UNTIL_MS;
