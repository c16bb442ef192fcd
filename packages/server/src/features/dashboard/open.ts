import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import { ensureBuilt, NotBuilt } from "./build.ts";
import { type BuiltSite, readSite } from "./files.ts";
import { CLONE, hasSources } from "./sources.ts";

/** The dashboard in memory, or a sentence that states why it is not available. */
export type Dashboard = { site: BuiltSite } | { problem: string };

/**
 * Reads the dashboard, and first builds it if it is missing or its sources changed. Never rejects: the server works without the
 * dashboard.
 */
export async function openDashboard({ clock, log }: { clock: Clock; log: Logger }, clone = CLONE): Promise<Dashboard> {
  try {
    if (!hasSources(clone)) throw new NotBuilt("Its sources are not in this installation.");
    return { site: await readSite(await ensureBuilt({ clone, clock, log })) };
  } catch (error) {
    log.warn({ err: error }, "there is no dashboard; the API works without it");
    return { problem: error instanceof NotBuilt ? error.message : "It could not be built or read. See the server's log for the reason." };
  }
}
