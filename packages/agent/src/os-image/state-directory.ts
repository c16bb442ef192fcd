import fs from "node:fs";
import type { AgentConfig } from "../config.ts";
import { StepFailure } from "../runtime/failure.ts";

/**
 * Throws StepFailure if the state directory is on the root file system, which belongs to one slot. The new system would have neither the
 * robot's identity nor the record of its own installation.
 */
export function checkStateDirectory({ state_directory, system_root }: AgentConfig): void {
  if (fs.statSync(state_directory).dev !== fs.statSync(system_root).dev) return;
  throw new StepFailure(
    "rejected_by_robot",
    `the state directory ${state_directory} is on the root file system: put it on a partition that both slots mount`,
  );
}
