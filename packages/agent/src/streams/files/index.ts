import type { Clock } from "@robofleet/clock";
import type { Channel, StreamSource } from "@robofleet/protocol/link";
import type { Logger } from "pino";
import { findShellUser, ShellRefused, type ShellUser } from "../shell/shell-user.ts";
import type { FileRoom } from "./place.ts";

const CLOSE_REFUSED = 4410;
const CLOSE_BAD_MESSAGE = 1008;

export interface FilesOptions {
  /** Below which files may be read and written; absolute. */
  directories: readonly string[];
  /** Whose files they are; absent: the agent's own user, unless that is root. */
  user: string | undefined;
  clock: Pick<Clock, "now" | "setTimer">;
  log: Pick<Logger, "warn">;
}

/** Files of the robot, read and written as the user of its shells. A channel is a session of many requests. */
export function filesSource(options: FilesOptions): StreamSource {
  return (channel) => void serve(channel, options);
}

async function serve(channel: Channel, options: FilesOptions): Promise<void> {
  let user: ShellUser;
  try {
    user = await findShellUser(options.user);
  } catch (error) {
    if (!(error instanceof ShellRefused)) throw error;
    return channel.reset(CLOSE_REFUSED, error.message);
  }
  const room: FileRoom = { directories: options.directories, home: user.home };
  try {
    if (user.become.length === 0) {
      const { serveFiles } = await import("./session.ts");
      await serveFiles(channel, room, () => options.clock.now().getTime());
    } else {
      const { serveInProcess } = await import("./own-process.ts");
      await serveInProcess(channel, room, user, options);
    }
  } catch (error) {
    options.log.warn({ err: error }, "a session of files was broken off");
    channel.reset(CLOSE_BAD_MESSAGE, (error as Error).message);
  }
}
