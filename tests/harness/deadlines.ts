import { UNTIL_MS } from "@roamfleet/clock/testing";

/** The longest wait of an agent between two tries. */
const AGENT_WAITS_MS_MAX = 60_000;

/** Until a robot is back whose server was away: at its next try, for which the default of `until` may be too short. */
export const ROBOT_BACK_MS = AGENT_WAITS_MS_MAX + UNTIL_MS;
