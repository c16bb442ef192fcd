import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

/** Timeout of one call. */
const CALL_MS_MAX = 240_000;
/**
 * Environment variables that `rf` gets from the test. Without NODE_COMPILE_CACHE, a short call would spend two thirds of its time compiling
 * sources. RF_TEST_RUN marks the process, so that the guard of a test run finds it.
 */
const { PATH, NODE_COMPILE_CACHE, RF_TEST_RUN, ROAMFLEET_TEST_PROGRAMS: bundles } = process.env;
/** The bundle, if the test run made one. */
const MAIN = bundles ? path.join(bundles, "rf", "rf.mjs") : path.resolve(import.meta.dirname, "../main.ts");
const INHERITED = { PATH: PATH!, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }), ...(RF_TEST_RUN && { RF_TEST_RUN }) };

export interface RfResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RfCall {
  env?: Record<string, string>;
  stdin?: string;
  /** Command prefix, such as one that enters another network namespace. */
  within?: readonly string[];
  /** Signal that kills the process when it is aborted. */
  signal?: AbortSignal;
  /** Called after each output, for example to send signals. */
  on_output?: (child: ChildProcess, text: string) => void;
}

/** A temporary home directory in which the real `rf` runs as users run it. */
export class RfHome implements AsyncDisposable {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async make(): Promise<RfHome> {
    return new RfHome(await mkdtemp(path.join(tmpdir(), "roamfleet-rf-")));
  }

  get credentials_file(): string {
    return path.join(this.directory, "roamfleet", "credentials.toml");
  }

  /** Runs `rf` until it exits. Returns its exit code and does not throw if the code is not 0. */
  run(args: readonly string[], call: RfCall = {}): Promise<RfResult> {
    const env = { ...INHERITED, XDG_CONFIG_HOME: this.directory, ...call.env };
    const [command = process.execPath, ...words] = [...(call.within ?? []), process.execPath, MAIN, ...args];
    const child = spawn(command, words, { env, stdio: "pipe", timeout: CALL_MS_MAX, killSignal: "SIGKILL" });
    call.signal?.addEventListener("abort", () => child.kill("SIGKILL"));
    child.stdin.on("error", () => {});
    child.stdin.end(call.stdin ?? "");
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
      call.on_output?.(child, text);
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
      call.on_output?.(child, text);
    });
    return new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code) => resolve({ code, stdout, stderr }));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}
