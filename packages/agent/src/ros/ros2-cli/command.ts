import type { ChildProcess } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@roamfleet/clock";
import { signalGroup } from "../../runtime/process-table.ts";
import { spawnChild } from "../../runtime/spawn-child.ts";
import { stopGroup } from "../../runtime/stop-group.ts";

/** Per list: the names of a few thousand topics. */
const OUTPUT_BYTES_MAX = 4 * 1024 * 1024;
const STOP_GRACE_MS = 1_000;

/** The `ros2` command of the robot's ROS. */
export interface Ros2Command {
  program: string;
  environment: Readonly<Record<string, string>>;
  clock: Clock;
}

/** Returns the path of `ros2` on the PATH; undefined if there is none. */
export async function findProgram(environment: Readonly<Record<string, string>>): Promise<string | undefined> {
  for (const directory of (environment["PATH"] ?? "").split(":")) {
    if (!directory.startsWith("/")) continue;
    const program = join(directory, "ros2");
    const found = await access(program, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return program;
  }
  return undefined;
}

/**
 * Starts the command as the leader of a process group. When no file descriptors are left it has no pipe and emits an error. Python's output is
 * unbuffered, since it would otherwise delay what it writes to a pipe.
 */
export function start({ program, environment }: Ros2Command, args: readonly string[]): ChildProcess {
  const env = { ...environment, PYTHONUNBUFFERED: "1" };
  return spawnChild(program, args, { env, detached: true, stdio: ["ignore", "pipe", "ignore"] });
}

/** Ends the command and all of its children. */
export async function stop(child: ChildProcess, clock: Clock): Promise<void> {
  child.stdout?.destroy();
  if (child.pid !== undefined) await stopGroup(child.pid, { clock, grace_ms: STOP_GRACE_MS });
}

/** Returns the output; undefined if it fails, prints too much or does not end within `timeout_ms`. */
export function outputOf(
  command: Ros2Command,
  args: readonly string[],
  timeout_ms: number,
  signal?: AbortSignal,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve(undefined);
    const child = start(command, args);
    const parts: Buffer[] = [];
    let bytes = 0;
    const end = (text: string | undefined): void => {
      timer.cancel();
      signal?.removeEventListener("abort", giveUp);
      if (child.pid !== undefined) signalGroup(child.pid, "SIGKILL");
      child.stdout?.destroy();
      resolve(text);
    };
    const giveUp = (): void => end(undefined);
    const timer = command.clock.setTimer(timeout_ms, giveUp);
    signal?.addEventListener("abort", giveUp, { once: true });
    child.stdout?.on("data", (part: Buffer) => {
      bytes += part.length;
      if (bytes > OUTPUT_BYTES_MAX) return giveUp();
      parts.push(part);
    });
    child.once("error", giveUp);
    child.once("close", (code) => end(code === 0 ? Buffer.concat(parts).toString("utf8") : undefined));
  });
}
