import { spawn } from "node:child_process";
import fs from "node:fs";
import process from "node:process";

const FORWARDED_SIGNALS = /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]);

/**
 * @typedef {{ code: number | null, signal: NodeJS.Signals | null }} Ending how a process ended: one of the two is set
 */

/**
 * Runs a program in the foreground with the stdin, stdout and stderr of this process, and forwards signals to it. With
 * `lifeline`, the program's file descriptor 3 is a pipe that closes when this process ends, even if it is killed.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ env?: NodeJS.ProcessEnv, cwd?: string, lifeline?: boolean }} [options]
 * @returns {Promise<Ending>} rejects when the program cannot be started
 */
export function runChild(command, args, { lifeline = false, ...options } = {}) {
  const child = spawn(command, args, {
    ...options,
    stdio: ["inherit", "inherit", "inherit", ...(lifeline ? /** @type {const} */ (["pipe"]) : [])],
  });
  /** @param {NodeJS.Signals} signal */
  const forward = (signal) => {
    // The terminal sends Ctrl-C to the child, too. A second SIGINT would make many programs stop immediately.
    if (signal === "SIGINT" && process.stdin.isTTY && isInForeground()) return;
    child.kill(signal);
  };
  for (const signal of FORWARDED_SIGNALS) process.on(signal, forward);
  return new Promise((resolve, reject) => {
    const settle = () => {
      for (const signal of FORWARDED_SIGNALS) process.removeListener(signal, forward);
    };
    child.on("error", (error) => {
      settle();
      reject(error);
    });
    child.on("exit", (code, signal) => {
      settle();
      // Otherwise a daemon that the child left behind could keep the pipe open, and with it this process running.
      child.stdio[3]?.destroy();
      resolve({ code, signal });
    });
  });
}

/**
 * Ends this process with the exit code or signal of its child.
 *
 * @param {Ending} ending
 */
export function endLike({ code, signal }) {
  if (signal !== null) process.kill(process.pid, signal);
  // If the child ended by a signal, this line is reached only if this process blocks or ignores that signal.
  process.exitCode = code ?? 1;
}

/** Returns whether this process is in the foreground process group of its terminal, which receives Ctrl-C. */
function isInForeground() {
  try {
    const stat = fs.readFileSync("/proc/self/stat", "utf8");
    const [, , process_group, , , foreground_group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return process_group === foreground_group;
  } catch {
    return true;
  }
}
