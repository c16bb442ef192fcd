import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { RobotConfig } from "../../config-file/robot-config.ts";
import type { LogSink } from "../../contract.ts";
import { errorText } from "../../disk/write-atomically.ts";
import { LogRateLimiter } from "../log-rate-limiter.ts";
import { Positions } from "./positions.ts";
import { followRosout, type RosoutTopic } from "./rosout.ts";

export interface LogSourcesOptions {
  settings: RobotConfig["logs"];
  state_directory: string;
  clock: Clock;
  log: Logger;
  /** The spool. */
  sink: LogSink;
  /** Environment of journalctl. */
  environment: Readonly<Record<string, string>>;
  /** True while less than half of the spool is used. Beyond that, lines wait in files and in the journal, which are as durable as the spool. */
  spoolHasRoom: () => boolean;
  /** Flushes the spool to disk. */
  sync: () => void;
  /** The robot's ROS; absent: none. */
  ros?: RosoutTopic;
  /** For tests: another journal. */
  journalctl?: readonly string[];
}

export interface LogSources {
  stop(): Promise<void>;
}

/** Starts the sources that the robot's config file enables: the journal, files, /rosout. */
export async function startLogSources(options: LogSourcesOptions): Promise<LogSources> {
  const { settings, state_directory, clock, log, sink, environment, spoolHasRoom, sync, ros, journalctl = ["journalctl"] } = options;
  const stops: (() => void | Promise<void>)[] = [];
  const newLimiter = (): LogRateLimiter => {
    const made = new LogRateLimiter(sink, clock);
    stops.unshift(() => made.close());
    return made;
  };
  // One failing source does not affect the others.
  const begin = async (source: string, start: () => Promise<unknown>): Promise<void> => {
    try {
      await start();
    } catch (error) {
      log.error({ source, reason: errorText(error) }, "logs of a source cannot be read");
    }
  };
  if (settings.journald !== false || settings.files.length > 0) {
    const positions = new Positions({ state_directory, clock, log, sync });
    stops.unshift(() => positions.close());
    const shared = { clock, log, positions, spoolHasRoom };
    if (settings.files.length > 0) {
      await begin("files", async () => {
        const { FileLogs } = await import("./files.ts");
        const files = new FileLogs({ ...shared, globs: settings.files, state_directory, limiter: newLimiter() });
        files.start();
        stops.unshift(() => files.stop());
      });
    }
    if (settings.journald !== false) {
      const units = settings.journald === true ? [] : settings.journald;
      await begin("journald", async () => {
        const { Journal } = await import("./journald.ts");
        const journal = new Journal({ ...shared, units, command: journalctl, environment, limiter: newLimiter() });
        journal.start();
        stops.unshift(() => journal.stop());
      });
    }
  }
  if (settings.rosout && ros !== undefined) {
    await begin("rosout", async () => stops.unshift(await followRosout(ros, rosoutSink({ clock, spoolHasRoom, nodes: newLimiter() }, stops))));
  }
  return {
    stop: async () => {
      for (const stop of stops) await stop();
    },
  };
}

const ROSOUT = "/rosout";

/** A node chooses its name, so all nodes share one rate limit in addition to their own. Records without room are dropped: they cannot wait. */
function rosoutSink(
  { clock, spoolHasRoom, nodes }: Pick<LogSourcesOptions, "clock" | "spoolHasRoom"> & { nodes: LogRateLimiter },
  stops: (() => void | Promise<void>)[],
): LogSink {
  const all = new LogRateLimiter(nodes, clock);
  stops.unshift(() => all.close());
  return {
    write: (record) => {
      if (spoolHasRoom()) all.write(record, undefined, ROSOUT);
      else all.drop(ROSOUT, 1);
    },
  };
}
