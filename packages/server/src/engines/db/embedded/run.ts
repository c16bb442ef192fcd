import { spawn, type SpawnOptions } from "node:child_process";

interface Outcome {
  /** Exit code; null if a signal ended the program; undefined if it could not be started. */
  code: number | null | undefined;
  /** The last OUTPUT_BYTES_MAX characters of stdout and stderr, interleaved. */
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

/** Runs a short program and returns its outcome. Kills it after two minutes. Never rejects. */
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

/** Makes all files of a new directory tree durable. Syncs the whole file system once, which replaces a thousand fsyncs. */
export async function syncTree(directory: string): Promise<void> {
  const { code, output } = await run("sync", ["--file-system", directory]);
  if (code !== 0) throw new Error(`sync failed on ${directory}: ${output}`);
}
