import { CLOSE_NOT_AVAILABLE, type StreamSource } from "@roamfleet/protocol/link";
import type { ShellSeams } from "./shell.ts";
import { readShellParams } from "./terminal.ts";

/** Maximum number of open shells on one robot. */
export const SHELLS_MAX = 16;
const CLOSE_TOO_MANY = 4429;

export interface Shells {
  source: StreamSource;
  /** Resolves when no process of a closed shell is left. */
  ended(): Promise<void>;
}

/**
 * Creates the handler of this robot's shells. Imports their modules only when the first shell is
 * opened.
 */
export function createShells(seams: ShellSeams): Shells {
  const running = new Set<Promise<void>>();
  const source: StreamSource = (channel, params) => {
    const checked = readShellParams(params);
    if (typeof checked === "string") return channel.reset(CLOSE_NOT_AVAILABLE, checked);
    if (running.size >= SHELLS_MAX) return channel.reset(CLOSE_TOO_MANY, `a robot has at most ${SHELLS_MAX} shells`);
    const shell = import("./shell.ts").then(({ runShell }) => runShell(seams, channel, checked));
    const kept = shell.catch(() => channel.reset(CLOSE_NOT_AVAILABLE, "this robot cannot open shells")).finally(() => running.delete(kept));
    running.add(kept);
  };
  return {
    source,
    async ended() {
      await Promise.all(running);
    },
  };
}
