import type { Clock } from "@roamfleet/clock";
import { OUTPUT_TAIL_CHARACTERS } from "./limits.ts";
import { signalGroup } from "./process-table.ts";
import { spawnChild } from "./spawn-child.ts";

export interface CommandOptions {
  argv: string[];
  cwd: string;
  env: Record<string, string>;
  timeout_ms: number;
  clock: Clock;
  /** Ends the command like a timeout. */
  signal?: AbortSignal | undefined;
}

export interface CommandResult {
  ok: boolean;
  /** `exited with 3`, `did not end within 5000 ms`, … and the end of its output. */
  message: string;
}

/** Runs a probe or reload command to its end, or kills it with all its children. Never throws. */
export function runCommand({ argv, cwd, env, timeout_ms, clock, signal: cut }: CommandOptions): Promise<CommandResult> {
  return new Promise((resolve) => {
    const [program, ...args] = argv;
    if (program === undefined) return resolve({ ok: false, message: "no command is named" });
    const child = spawnChild(program, args, { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    let tail = "";
    let timed_out = false;
    const keep = (chunk: Buffer): void => {
      tail = (tail + chunk.toString("utf8")).slice(-OUTPUT_TAIL_CHARACTERS);
    };
    child.stdout?.on("data", keep);
    child.stderr?.on("data", keep);
    const end = (ok: boolean, why: string): void => {
      timer.cancel();
      cut?.removeEventListener("abort", kill);
      // Includes processes that the command left in the background.
      if (child.pid !== undefined) signalGroup(child.pid, "SIGKILL");
      child.stdout?.destroy();
      child.stderr?.destroy();
      const words = tail.trim();
      resolve({ ok, message: words === "" ? why : `${why}: ${words}` });
    };
    const kill = (): void => {
      if (child.pid !== undefined) signalGroup(child.pid, "SIGKILL");
    };
    cut?.addEventListener("abort", kill, { once: true });
    if (cut?.aborted) kill();
    const timer = clock.setTimer(timeout_ms, () => {
      timed_out = true;
      kill();
    });
    child.on("error", (error) => end(false, `could not be started (${error.message})`));
    child.on("exit", (code, signal) => {
      if (timed_out) end(false, `did not end within ${timeout_ms} ms`);
      else if (code === 0) end(true, "exited with 0");
      else end(false, signal === null ? `exited with ${code}` : `ended by ${signal}`);
    });
  });
}
