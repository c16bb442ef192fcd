import fs from "node:fs";
import path from "node:path";
import { systemClock } from "@roamfleet/clock";
import type { Desired, ReportBody } from "@roamfleet/protocol/link";
import { pino } from "pino";
import { createDeployments } from "../deployments/index.ts";
import type { AgentConfig } from "../contract.ts";
import { plainFetcher } from "./artifact-server.ts";
import { QUICK, testConfig } from "./deployments-rig.ts";

/** The driver's only argument, in JSON. */
export interface KillDriverTask {
  state: string;
  origin: string;
  desired: Desired;
  /**
   * Number of the point between two side effects at which the process kills itself with SIGKILL, counted from 1. 0: it does
   * not kill itself.
   */
  kill_at: number;
  /** Prefix of the names of the points that are counted; absent: all points. */
  places?: string;
  config?: Partial<AgentConfig>;
  /** While this file exists, the agent counts as not connected to its server. */
  offline_file?: string;
}

/**
 * Returns the path of the driver's report file. It contains one JSON line per report, and is durable like the agent's
 * outbox.
 */
export const outboxOf = (state: string): string => path.join(state, "outbox.ndjson");

/** Returns the path of the file with the names of the points that the last process passed, one per line. */
export const placesOf = (state: string): string => path.join(state, "places.txt");

/** Runs the part of the agent that deploys releases in a separate process, which tests kill. The process ends on SIGTERM. */
async function main(task: KillDriverTask): Promise<void> {
  const outbox = fs.openSync(outboxOf(task.state), "a");
  const places = fs.openSync(placesOf(task.state), "w");
  let steps = 0;
  const report = (body: ReportBody): void => {
    fs.writeFileSync(outbox, `${JSON.stringify(body)}\n`);
    fs.fsyncSync(outbox);
  };
  const deployments = createDeployments(
    {
      state_directory: task.state,
      clock: systemClock,
      // The bundle has no other destination: see build.ts.
      log: pino({ level: "silent" }, { write: () => {} }),
      desired: task.desired,
      reporter: { report, progress: () => {} },
      logs: { write: () => {} },
      fetcher: plainFetcher(task.origin),
      config: testConfig(task.state, task.config),
      connected: () => task.offline_file === undefined || !fs.existsSync(task.offline_file),
    },
    {
      timing: QUICK,
      on_step: (name) => {
        if (!name.startsWith(task.places ?? "")) return;
        steps += 1;
        if (steps === task.kill_at) process.kill(process.pid, "SIGKILL");
        fs.writeFileSync(places, `${name}\n`);
      },
    },
  );
  process.once("SIGTERM", () => void deployments.stop().then(() => process.exit(0)));
  await deployments.start();
  // Keep the process running until SIGTERM. An app without a health check has no timers after its deployment, so the process
  // would end.
  setInterval(() => {}, 60_000);
}

if (import.meta.main) await main(JSON.parse(process.argv[2]!) as KillDriverTask);
