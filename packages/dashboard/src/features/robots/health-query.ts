import { query } from "../../api/queries.ts";

/** Refetch interval. Robots report once a minute, and only a change of the health state is an event. */
const REFRESH_MS = 10_000;

/** The latest health of a robot, refetched while it is shown. */
export const healthQuery = (id: string) => ({ ...query("getRobotHealth", { params: { id } }), refetchInterval: REFRESH_MS });
