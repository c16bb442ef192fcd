import { query } from "../../api/queries.ts";

/** A robot sends its health once a minute, and only a change of its state is an event: values are read again this often. */
const REFRESH_MS = 10_000;

/** The newest health of a robot, refreshed while it is shown. */
export const healthQuery = (id: string) => ({ ...query("getRobotHealth", { params: { id } }), refetchInterval: REFRESH_MS });
