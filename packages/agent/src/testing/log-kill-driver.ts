import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { systemClock } from "@roamfleet/clock";
import { pino } from "pino";
import { startLogSources } from "../logs/sources/index.ts";
import { LogSpool } from "../spool/log-spool.ts";

/** The driver's only argument, in JSON. */
export interface LogKillTask {
  state: string;
  /** Directory in memory for records while the agent is connected. Absent: records are written to the disk. */
  memory?: string;
  globs: string[];
  /**
   * Number of the record after which the process kills itself with SIGKILL, counted from 1. 0: it
   * does not kill itself.
   */
  kill_at: number;
  /** Text of the message after which the process exits. */
  last: string;
}

/** Follows files into a spool, in a separate process that tests kill. */
async function main({ state, memory, globs, kill_at, last }: LogKillTask): Promise<void> {
  const clock = systemClock;
  const spool = new LogSpool({
    directory: join(state, "logs"),
    memory_directory: memory,
    bytes_max: 64 * 1024 * 1024,
    clock,
    now: () => clock.now(),
    on_disk: () => {},
  });
  spool.linked = memory !== undefined;
  let records = 0;
  let seen = false;
  const sources = await startLogSources({
    settings: { journald: false, files: globs, rosout: false },
    state_directory: state,
    clock,
    log: pino({ level: "silent" }),
    sink: {
      write: (record) => {
        spool.append(record);
        records += 1;
        seen ||= record.message === last;
        if (records === kill_at) process.kill(process.pid, "SIGKILL");
      },
    },
    environment: {},
    spoolHasRoom: () => true,
    spool,
    boot_id: "boot",
    recent_directory: state,
  });
  process.stdout.write("started\n");
  while (!seen) await turn();
  await sources.stop();
  spool.close();
}

if (import.meta.main) await main(JSON.parse(process.argv[2]!) as LogKillTask);
