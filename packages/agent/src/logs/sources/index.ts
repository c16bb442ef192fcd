import type { Clock } from "@robofleet/clock";
import type { Logger } from "pino";
import type { RobotConfig } from "../../config-file/robot-config.ts";
import type { LogSink } from "../../contract.ts";
import { SourceGates } from "../source-gates.ts";
import { Positions } from "./positions.ts";
import { followRosout, type RosoutTopic } from "./rosout.ts";

export interface LogSourcesOptions {
  settings: RobotConfig["logs"];
  state_directory: string;
  clock: Clock;
  log: Logger;
  /** The spool. */
  sink: LogSink;
  /** What journalctl is started with. */
  environment: Readonly<Record<string, string>>;
  /** Less than half of the spool is taken. Beyond, what lies in files and in the journal stays there: they keep it as well as the spool does. */
  spoolHasRoom: () => boolean;
  /** Puts the spool on the disk. */
  sync: () => void;
  /** The robot's ROS; absent: none. */
  ros?: RosoutTopic;
  /** For tests: a journal of their own. */
  journalctl?: readonly string[];
}

export interface LogSources {
  stop(): Promise<void>;
}

/** Reads what the robot's configuration names beside the agent's own log and its workloads': the journal, files, /rosout. */
export async function startLogSources(options: LogSourcesOptions): Promise<LogSources> {
  const { settings, state_directory, clock, log, sink, environment, spoolHasRoom, sync, ros, journalctl = ["journalctl"] } = options;
  const stops: (() => void | Promise<void>)[] = [];
  const gates = (): SourceGates => {
    const made = new SourceGates(sink, clock);
    stops.unshift(() => made.close());
    return made;
  };
  if (settings.journald !== false || settings.files.length > 0) {
    const positions = new Positions({ state_directory, clock, log, sync });
    stops.unshift(() => positions.close());
    const shared = { clock, log, positions, spoolHasRoom };
    if (settings.files.length > 0) {
      const { FileLogs } = await import("./files.ts");
      const files = new FileLogs({ ...shared, globs: settings.files, state_directory, gates: gates() });
      files.start();
      stops.unshift(() => files.stop());
    }
    if (settings.journald !== false) {
      const { Journal } = await import("./journald.ts");
      const units = settings.journald === true ? [] : settings.journald;
      const journal = new Journal({ ...shared, units, command: journalctl, environment, gates: gates() });
      journal.start();
      stops.unshift(() => journal.stop());
    }
  }
  if (settings.rosout && ros !== undefined) {
    const rosout = gates();
    stops.unshift(await followRosout(ros, rosout));
  }
  return {
    stop: async () => {
      for (const stop of stops) await stop();
    },
  };
}
