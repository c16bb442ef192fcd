import fs from "node:fs";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "../contract.ts";
import type { StatePaths } from "./paths.ts";
import { processesWithEnvironment, type ProcessEntry, readProcess } from "./process-table.ts";
import { stopStrays } from "./stop-group.ts";
import type { ProcessRecord } from "./workload.ts";

export interface EarlierProcessesOptions {
  app: string;
  paths: StatePaths;
  clock: Clock;
  log: Logger;
  grace_ms: number;
}

/**
 * Ends processes of this app that a killed agent left running, so that there are never two copies. They cannot be adopted, since their output is lost
 * with that agent's pipes: they are started again.
 */
export async function stopEarlierProcesses({ app, paths, clock, log, grace_ms }: EarlierProcessesOptions): Promise<void> {
  const recorded = readRecorded(paths.process(app));
  const inherited = processesWithEnvironment({ ROAMFLEET_APP: app, ROAMFLEET_CONFIG_DIR: paths.configs });
  const strays = recorded === undefined ? inherited : [recorded, ...inherited];
  if (strays.length === 0) return;
  log.info({ app, pids: strays.map(({ pid }) => pid) }, "ending processes that an earlier agent left");
  await stopStrays(strays, { clock, grace_ms });
}

/** A recorded pid counts only with its start time: the number may have been reused. */
function readRecorded(file: string): ProcessEntry | undefined {
  try {
    const record = JSON.parse(fs.readFileSync(file, "utf8")) as ProcessRecord;
    const entry = readProcess(record.pid);
    return entry !== undefined && entry.start_time === record.start_time ? entry : undefined;
  } catch {
    return undefined;
  }
}
