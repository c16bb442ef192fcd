import { spawn, type SpawnOptions } from "node:child_process";

interface Outcome {
  /** Exit code; null if a signal ended it; undefined if it could not be started. */
  code: number | null | undefined;
  /** The last OUTPUT_BYTES_MAX of stdout and stderr, interleaved. */
  output: string;
}

const OUTPUT_BYTES_MAX = 16 * 1024;
const RUN_TIMEOUT_MS = 120_000;

/**
 * A fixed environment for all child processes. So the server's variables (DATABASE_URL, tokens) are not readable in a child's
 * /proc/<pid>/environ, and PG* variables of the caller's shell have no effect.
 */
export const CHILD_ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LC_ALL: "C",
  TZ: "UTC",
};

/** Runs a short program to its end, killed after two minutes. Never rejects: the outcome contains the result. */
export function run(file: string, args: readonly string[], options: SpawnOptions = {}): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = spawn(file, [...args], {
      env: CHILD_ENVIRONMENT,
      timeout: RUN_TIMEOUT_MS,
      killSignal: "SIGKILL",
      stdio: ["ignore", "pipe", "pipe"],
      ...options,
    });
    let output = "";
    const collect = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-OUTPUT_BYTES_MAX);
    };
    child.stdout?.on("data", collect);
    child.stderr?.on("data", collect);
    child.once("error", (error) => resolve({ code: undefined, output: error.message }));
    child.once("close", (code) => resolve({ code, output }));
  });
}

/** Makes a newly written tree of files durable with one call for the file system instead of a thousand fsyncs. */
export async function syncTree(directory: string): Promise<void> {
  const { code, output } = await run("sync", ["--file-system", directory]);
  if (code !== 0) throw new Error(`sync failed on ${directory}: ${output}`);
}
