import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";
import { EventEmitter } from "node:events";

/**
 * Starts a child process and never throws. Node reports ENOENT, EACCES and a lack of descriptors as an `error` event but throws everything
 * else (ENOTDIR, ETXTBSY, EIO, ELOOP, E2BIG, ENOMEM): here each of them is an `error` event, followed by `close`. Without a pid the child
 * never ran, and its streams may be missing. An error of the child or of its streams that has no listener is ignored: `exit` and `close` follow.
 */
export function spawnChild(program: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  let child: ChildProcess;
  try {
    child = spawn(program, args, options);
  } catch (error) {
    child = unstarted(error);
  }
  child.on("error", ignore);
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.on("error", ignore);
  return child;
}

const ignore = (): void => {};

const NEVER_RAN = {
  pid: undefined,
  stdin: null,
  stdout: null,
  stderr: null,
  exitCode: null,
  signalCode: null,
  killed: false,
  connected: false,
};

function unstarted(error: unknown): ChildProcess {
  const child = Object.assign(new EventEmitter(), { ...NEVER_RAN, kill: () => false, ref: ignore, unref: ignore }) as ChildProcess;
  process.nextTick(() => {
    child.emit("error", error);
    child.emit("close", null, null);
  });
  return child;
}
