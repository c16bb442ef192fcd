import fs from "node:fs";
import path from "node:path";
import { systemClock } from "@roamfleet/clock";
import type { Desired, ReportBody } from "@roamfleet/protocol/link";
import { pino } from "pino";
import { createDeployments } from "../deployments/index.ts";
import type { AgentConfig } from "../contract.ts";
import { plainFetcher } from "./artifact-server.ts";
import { QUICK, testConfig } from "./deployments-rig.ts";

/** What the test passes as the one argument, in JSON. */
export interface KillDriverTask {
  state: string;
  origin: string;
  desired: Desired;
  /** The process ends itself with SIGKILL at this place between side effects, counted from 1; 0: never. */
  kill_at: number;
  /** Only places that begin with this are counted; absent: all. */
  places?: string;
  config?: Partial<AgentConfig>;
}

/** Where its reports go, one JSON line each, durable like the agent's outbox. */
export const outboxOf = (state: string): string => path.join(state, "outbox.ndjson");

/** Names of the places that the last process came by, one a line. */
export const placesOf = (state: string): string => path.join(state, "places.txt");

/** A process of its own that runs the deployments part: for tests that kill it. It ends on SIGTERM. */
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
      log: pino({ level: "silent" }),
      desired: task.desired,
      reporter: { report, progress: () => {} },
      logs: { write: () => {} },
      fetcher: plainFetcher(task.origin),
      config: testConfig(task.state, task.config),
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
  // Timers of a settled app without a health check are none: the process stays until it is told.
  setInterval(() => {}, 60_000);
}

if (import.meta.main) await main(JSON.parse(process.argv[2]!) as KillDriverTask);
