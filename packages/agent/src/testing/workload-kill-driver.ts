import { join } from "node:path";
import { systemClock } from "@roamfleet/clock";
import { pino } from "pino";
import { DetachedHost } from "../runtime/hosts/detached-host.ts";
import { resourceLimits } from "../runtime/manifest.ts";
import { statePaths } from "../runtime/paths.ts";
import { LogSpool } from "../spool/log-spool.ts";

/** The driver's only argument, in JSON. */
export interface WorkloadKillTask {
  state: string;
  script: string;
  /** Directory in memory for the output. Absent: the output waits on the disk. */
  memory?: string;
  /** Number of records in the log after which the process kills itself with SIGKILL, counted from this start. 0: it does not kill itself. */
  kill_at: number;
  /** True: it kills itself before that record is appended to the log. False: after the record was written. */
  before: boolean;
}

export const openSpool = (state: string): LogSpool =>
  new LogSpool({
    directory: join(state, "logs"),
    bytes_max: 64 * 1024 * 1024,
    clock: systemClock,
    now: () => systemClock.now(),
    on_disk: () => {},
  });

/** The part of the agent that runs one program and logs its output, in a separate process that tests kill. It ends with the program. */
async function main({ state, script, memory, kill_at, before }: WorkloadKillTask): Promise<void> {
  const spool = openSpool(state);
  let records = 0;
  const host = new DetachedHost({
    paths: statePaths(state),
    clock: systemClock,
    memory_directory: memory,
    log: pino({ level: "silent" }),
    sink: {
      write: (record) => {
        records += 1;
        if (before && records === kill_at) process.kill(process.pid, "SIGKILL");
        spool.append(record);
        // The log writes a batch in one piece. Flush it now, so that only a part of the batch is stored.
        if (records === kill_at) spool.next({ records: 0, bytes: 0 });
        if (records === kill_at) process.kill(process.pid, "SIGKILL");
      },
      next_seq: () => spool.last_seq + 1,
      stored_seq: spool.stored_seq,
    },
  });
  const adopted = await host.adopt("main", "rel_1");
  if (adopted === undefined) await host.clear("main");
  const env = { PATH: process.env["PATH"] ?? "", ROAMFLEET_APP: "main", ROAMFLEET_CONFIG_DIR: join(state, "configs") };
  const spec = {
    app: "main",
    release_id: "rel_1",
    argv: ["sh", "-c", script],
    directory: state,
    env,
    stop_timeout_seconds: 1,
    limits: resourceLimits(undefined),
    restarts: 0,
  };
  const program = adopted?.program ?? (await host.start(spec));
  process.stdout.write(`${program.pid}\n`);
  const how = await program.ended;
  spool.close();
  process.stdout.write(`${how}\n`);
}

if (import.meta.main) await main(JSON.parse(process.argv[2]!) as WorkloadKillTask);
