import { spawn } from "node:child_process";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

const TIMEOUT_MS = 180_000;
/** Maximum size of each of stdout and stderr. A command that prints more is killed. */
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024;
const SHOWN_CHARACTERS = 4_000;

export interface CommandResult {
  /** Exit code; null if a signal ended the command. */
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface CommandOptions {
  /** Content of stdin, which is empty by default. */
  input?: string | Uint8Array | Readable;
  /** Time after which the command is killed and the call rejects. */
  timeout_ms?: number;
}

/** Runs a command on this machine. Resolves with any exit code; rejects if the command cannot start, or takes or prints too much. */
export async function runCommand(argv: readonly string[], options: CommandOptions = {}): Promise<CommandResult> {
  const { input = "", timeout_ms = TIMEOUT_MS } = options;
  const [command = "", ...words] = argv;
  const child = spawn(command, words, { stdio: ["pipe", "pipe", "pipe"] });
  let problem: string | undefined;
  const abort = (why: string): void => {
    problem ??= why;
    child.kill("SIGKILL");
  };
  const collect = (stream: Readable): (() => string) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    stream.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > OUTPUT_BYTES_MAX) abort(`printed more than ${OUTPUT_BYTES_MAX} bytes`);
      else chunks.push(chunk);
    });
    return () => Buffer.concat(chunks).toString("utf8");
  };
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
  const timer = setTimeout(() => abort(`did not end within ${timeout_ms} ms`), timeout_ms);
  // A command that ends without reading all its input is judged by its exit code.
  const source = input instanceof Readable ? input : Readable.from([Buffer.from(input)]);
  const fed = pipeline(source, child.stdin).catch(() => {});
  try {
    const code = await new Promise<number | null>((resolve, reject) => child.once("close", resolve).once("error", reject));
    if (problem !== undefined) throw new Error(`${argv.join(" ")}: ${problem}\n${(stdout() + stderr()).slice(-SHOWN_CHARACTERS)}`);
    source.destroy();
    await fed;
    return { code, stdout: stdout(), stderr: stderr() };
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the stdout of a command that ended with code 0; throws its output otherwise. */
export function outputOf(argv: readonly string[], { code, stdout, stderr }: CommandResult): string {
  if (code === 0) return stdout;
  throw new Error(`${argv.join(" ")}: exit code ${code}\n${(stdout + stderr).slice(-SHOWN_CHARACTERS)}`);
}
