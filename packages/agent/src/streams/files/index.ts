import type { Clock } from "@roamfleet/clock";
import { type Channel, CLOSE_NOT_AVAILABLE, type StreamSource } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { errorText } from "../../disk/write-atomically.ts";
import { findShellUser, ShellRefused } from "../shell/shell-user.ts";
import type { RunAs } from "../../runtime/users.ts";
import type { Processes } from "./own-process.ts";
import type { FileRoom } from "./place.ts";

const CLOSE_BAD_MESSAGE = 1008;

interface FilesOptions {
  /** Absolute directories below which files may be read and written. */
  directories: readonly string[];
  /** The agent's state directory. No file in it is served. */
  state_directory: string;
  /**
   * Returns true while signed releases are required. Then files must be served as a user other than the
   * agent's own.
   */
  is_confined: () => boolean;
  /** The user that files are read and written as. Absent: the agent's own user, unless that is root. */
  user: string | undefined;
  /**
   * Environment variables of the agent's child processes. They contain HOME, which is used for a user without
   * a passwd entry.
   */
  environment: Readonly<Record<string, string>>;
  clock: Pick<Clock, "now" | "setTimer">;
  log: Pick<Logger, "warn">;
}

/**
 * Serves files of the robot. They are read and written as the user that shells run as. Each channel is a
 * session with many requests.
 */
export function filesSource(options: FilesOptions): StreamSource {
  const processes: Processes = { running: 0 };
  return (channel) => serve(channel, options, processes);
}

async function serve(channel: Channel, options: FilesOptions, processes: Processes): Promise<void> {
  let user: RunAs;
  try {
    user = await findShellUser(options.user, {
      environment: options.environment,
      kept_from: options.is_confined() ? options.state_directory : undefined,
    });
  } catch (error) {
    if (!(error instanceof ShellRefused)) options.log.warn({ err: error }, "could not determine the user for files");
    return channel.reset(CLOSE_NOT_AVAILABLE, errorText(error));
  }
  const room: FileRoom = { directories: options.directories, home: user.home, closed: options.state_directory };
  try {
    if (user.become.length === 0) {
      const { serveFiles } = await import("./session.ts");
      await serveFiles(channel, room, () => options.clock.now().getTime());
    } else {
      const { serveInProcess } = await import("./own-process.ts");
      await serveInProcess(channel, room, user, { ...options, processes });
    }
  } catch (error) {
    options.log.warn({ err: error }, "a file session failed");
    channel.reset(CLOSE_BAD_MESSAGE, errorText(error));
  }
}
